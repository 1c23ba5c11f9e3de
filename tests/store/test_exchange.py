"""Looking, exchanging, putting back: on this file system, and on one that cannot exchange."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from cueloop_daemon.store.etag import SESSION_LIMIT, etag_of_bytes, etag_of_stat
from cueloop_daemon.store.exchange import Held, Sight, hold, look, place_new, put_back, swap
from cueloop_daemon.store.system import System
from faults.systems import Hooked, failing_where, without_exchange

HERE = System()


def file(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


def seen(path: Path, system: System = HERE) -> Sight:
    sight = look(system, str(path))
    assert sight is not None
    return sight


def test_a_file_is_named_by_its_bytes(tmp_path: Path) -> None:
    file(tmp_path / "f", b"abc")
    os.chmod(tmp_path / "f", 0o640)
    sight = seen(tmp_path / "f")
    assert sight == Sight("file", etag_of_bytes(b"abc"), os.stat(tmp_path / "f").st_ino, 0o640, b"abc")
    assert sight.etag == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


@pytest.mark.parametrize(("size", "is_read"), [(SESSION_LIMIT, True), (SESSION_LIMIT + 1, False)])
def test_a_file_over_the_limit_is_named_by_its_stat(tmp_path: Path, size: int, is_read: bool) -> None:
    file(tmp_path / "f", bytes(size))
    sight = seen(tmp_path / "f")
    assert (sight.data is not None) is is_read
    assert sight.etag == (etag_of_bytes(bytes(size)) if is_read else etag_of_stat(os.stat(tmp_path / "f")))
    os.rename(tmp_path / "f", tmp_path / "g")
    assert seen(tmp_path / "g").etag == sight.etag


def test_a_file_that_grows_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "f"
    file(path, bytes(SESSION_LIMIT))

    class Growing(System):
        def pread(self, fd: int, size: int, offset: int) -> bytes:
            if offset == 0:
                os.truncate(path, SESSION_LIMIT + 10)
            return super().pread(fd, size, offset)

    sight = seen(path, Growing())
    assert (sight.data, sight.etag) == (None, etag_of_stat(os.stat(path)))


def test_what_is_no_file(tmp_path: Path) -> None:
    """Nothing is followed, and a FIFO does not block."""
    os.mkdir(tmp_path / "folder")
    os.mkfifo(tmp_path / "fifo")
    os.symlink("/etc/hostname", tmp_path / "link")
    os.symlink("nowhere", tmp_path / "dangling")
    os.symlink("loop", tmp_path / "loop")
    kinds = {name: seen(tmp_path / name).kind for name in os.listdir(tmp_path)}
    assert kinds == {"folder": "folder", "fifo": "special", "link": "link", "dangling": "link", "loop": "link"}
    assert look(HERE, str(tmp_path / "missing")) is None


def test_what_may_not_be_read(tmp_path: Path) -> None:
    file(tmp_path / "f", b"x")
    denied = failing_where(lambda call: call.name == "open", errno.EACCES)
    assert seen(tmp_path / "f", denied).kind == "unreadable"
    with pytest.raises(OSError, match="Input/output"):
        look(failing_where(lambda call: call.name == "open", errno.EIO), str(tmp_path / "f"))
    with pytest.raises(PermissionError):
        look(failing_where(lambda call: call.name == "lstat", errno.EACCES), str(tmp_path / "f"))


def test_a_file_that_becomes_something_else_at_the_last_moment(tmp_path: Path) -> None:
    path = tmp_path / "f"
    file(path, b"x")

    def becomes_link(name: str) -> None:
        if name == "open":
            path.unlink()
            path.symlink_to("/etc/hostname")

    assert seen(path, Hooked(lambda call: becomes_link(call.name))).kind == "link"
    path.unlink()
    file(path, b"x")

    def becomes_fifo(name: str) -> None:
        if name == "open":
            path.unlink()
            os.mkfifo(path)

    assert seen(path, Hooked(lambda call: becomes_fifo(call.name))).kind == "special"


def test_a_held_file_stays_the_same_one(tmp_path: Path) -> None:
    path = tmp_path / "f"
    file(path, b"old")
    with hold(HERE, str(path)) as held:
        assert isinstance(held, Held)
        os.rename(file(tmp_path / "g", b"new"), path)
        assert held.look().data == b"old"
        fd = held.fd
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


@pytest.mark.parametrize(
    "system", [System(), without_exchange(), without_exchange(code=errno.EINVAL)], ids=["real", "ENOSYS", "EINVAL"]
)
def test_placing_takes_a_free_name_only(tmp_path: Path, system: System) -> None:
    source = file(tmp_path / "source", b"ours")
    target = file(tmp_path / "target", b"theirs")
    assert not place_new(system, source, target)
    assert (tmp_path / "target").read_bytes() == b"theirs"
    assert place_new(system, source, str(tmp_path / "free"))
    assert sorted(os.listdir(tmp_path)) == ["free", "target"]
    with pytest.raises(FileNotFoundError):
        place_new(system, source, str(tmp_path / "other"))


def test_other_errors_are_not_taken_for_a_missing_call(tmp_path: Path) -> None:
    source, target = file(tmp_path / "a", b"a"), file(tmp_path / "b", b"b")
    for name, use in (("rename_new", place_new), ("exchange", swap)):
        with pytest.raises(OSError, match="Input/output"):
            use(failing_where(lambda call, name=name: call.name == name, errno.EIO), source, target)  # type: ignore[misc]


def test_swap(tmp_path: Path) -> None:
    one, other = file(tmp_path / "a", b"a"), file(tmp_path / "b", b"b")
    assert swap(HERE, one, other)
    assert ((tmp_path / "a").read_bytes(), (tmp_path / "b").read_bytes()) == (b"b", b"a")
    assert not swap(without_exchange(), one, other)
    with pytest.raises(FileNotFoundError):
        swap(HERE, one, str(tmp_path / "missing"))


def test_exchange_takes_a_path_of_any_bytes(tmp_path: Path) -> None:
    one = file(tmp_path / "a\udcff b", b"a")
    other = file(tmp_path / "ü\n", b"b")
    assert swap(HERE, one, other)
    assert Path(one).read_bytes() == b"b"


def test_put_back_ends_with_the_newest_of_theirs(tmp_path: Path) -> None:
    """Ours is at the path, theirs aside; before each exchange they write again, twice."""
    aside, path = tmp_path / "aside", tmp_path / "path"
    file(aside, b"theirs 0")
    file(path, b"ours")
    written = iter((b"theirs 1", b"theirs 2"))

    def write(name: str) -> None:
        if name == "exchange" and (data := next(written, None)):
            os.rename(file(tmp_path / "temp", data), path)

    put_back(Hooked(lambda call: write(call.name)), str(aside), str(path), etag_of_bytes(b"ours"))
    assert path.read_bytes() == b"theirs 2"
    assert aside.read_bytes() == b"theirs 1"


def test_put_back_without_anything_in_between(tmp_path: Path) -> None:
    aside, path = tmp_path / "aside", tmp_path / "path"
    file(aside, b"theirs")
    file(path, b"ours")
    put_back(HERE, str(aside), str(path), etag_of_bytes(b"ours"))
    assert (path.read_bytes(), aside.read_bytes()) == (b"theirs", b"ours")


def test_put_back_respects_a_removal(tmp_path: Path) -> None:
    aside = tmp_path / "aside"
    file(aside, b"theirs")
    put_back(HERE, str(aside), str(tmp_path / "path"), etag_of_bytes(b"ours"))
    assert os.listdir(tmp_path) == ["aside"]

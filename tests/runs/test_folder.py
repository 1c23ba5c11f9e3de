"""A run's folder: files that are whole and private, output over segments, the lock, the tombstone, secrets, pruning."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cueloop_daemon.runs.shim import Folder, RunFolders, files
from cueloop_daemon.shim.output import Budget, Stream
from cueloop_daemon.shim.spec import OrderSpec, parse_order
from cueloop_daemon.store.not_writable import NotWritable
from cueloop_protocol.roots import Root

ORDER = OrderSpec("token", "agent", ("/bin/true",), {"KEY": "s3cret"}, None, None, None, 1.0)


@pytest.fixture
def folders(tmp_path: Path) -> RunFolders:
    (tmp_path / ".cueloop" / "cache" / "cueloopd").mkdir(parents=True)
    return RunFolders(Root(str(tmp_path), str(tmp_path)), os.getuid())


@pytest.fixture
def folder(folders: RunFolders) -> Iterator[Folder]:
    with contextlib.closing(folders.make("r-1")) as made:
        yield made


def names(folder: Folder) -> set[str]:
    return set(os.listdir(folder.fd))


# --- files ---


def test_files_are_private_whatever_the_umask(folder: Folder) -> None:
    before = os.umask(0)
    try:
        folder.write_prompt(1, "p")
        folder.write_stdin(1, b"s")
        folder.write_caller_env({"A": "b"})
        folder.write_order(1, ORDER)
    finally:
        os.umask(before)
    assert {stat.S_IMODE(os.stat(name, dir_fd=folder.fd).st_mode) for name in names(folder)} == {0o600}


def test_a_prompt_is_replaced_until_its_order_exists_and_stays_from_then_on(folder: Folder) -> None:
    path = folder.write_prompt(1, "first")
    assert folder.write_prompt(1, "second") == path
    assert Path(path).read_text() == "second"
    folder.write_order(1, ORDER)
    folder.write_prompt(1, "third")
    assert Path(path).read_text() == "second"
    assert folder.write_prompt(2, "other") != path


def test_an_order_is_never_changed(folder: Folder) -> None:
    folder.write_order(1, ORDER)
    folder.write_order(1, OrderSpec(**{**vars(ORDER), "token": "other"}))
    assert folder.token(1) == "token"
    assert parse_order(Path(folder.path, "1.order").read_bytes()) == ORDER
    assert folder.token(2) is None


def test_the_callers_environment_comes_back_as_it_was(folder: Folder) -> None:
    env = {"PATH": "/usr/bin", "ODD": "caf\udce9", "EMPTY": ""}
    assert folder.caller_env() is None
    folder.write_caller_env(env)
    assert folder.caller_env() == env


def test_a_full_disk_is_told_and_leaves_nothing_half(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write_prompt(1, "first")

    def full(fd: int, data: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "write", full)
    with pytest.raises(NotWritable, match="the disk is full"):
        folder.write_prompt(1, "second")
    monkeypatch.undo()
    assert Path(folder.path, "1.prompt").read_text() == "first"
    assert names(folder) == {"1.prompt"}


@pytest.mark.parametrize("what", ["link", "folder", "pipe", "too long"])
def test_what_is_no_plain_file_is_not_read(folder: Folder, what: str) -> None:
    path = Path(folder.path, "shim.json")
    if what == "link":
        path.symlink_to("/etc/passwd")
        with pytest.raises(OSError, match="symbolic"):
            folder.shim()
        return
    if what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    else:
        with open(path, "wb") as file:
            file.truncate(files.LIMIT + 1)
    assert folder.shim() is None


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"pid": "1"}', '{"pid": 1, "start": "1", "boot": "b", "protocol": 1}'])
def test_a_shims_file_that_says_too_little_says_nothing(folder: Folder, text: str) -> None:
    Path(folder.path, "shim.json").write_text(text)
    assert folder.shim() is None


# --- output ---


def written(folder: Folder, number: int, data: bytes, limit: int, segment: int) -> Stream:
    """Output as the shim keeps it."""
    stream = Stream(Budget(folder.fd, limit, segment), f"{number}.out", lambda what, errno: None)
    stream.write(data)
    stream.close()
    return stream


@contextlib.contextmanager
def small(folder: Folder, segment: int) -> Iterator[Folder]:
    with contextlib.closing(Folder(folder.run_id, folder.path, os.dup(folder.fd), folder.uid, segment=segment)) as made:
        yield made


def pieces(folder: Folder, number: int, limit: int) -> list[tuple[int, bytes]]:
    found, offset = [], 0
    while True:
        begin, data = folder.read(number, "out", offset, limit)
        if not data:
            assert begin == offset
            return found
        assert begin >= offset
        found.append((begin, data))
        offset = begin + len(data)


@given(size=st.integers(0, 400), segment=st.integers(1, 40), budget=st.integers(0, 300), limit=st.integers(1, 60))
@settings(max_examples=60, deadline=None)
def test_what_is_read_is_what_was_written_at_its_own_offset(
    tmp_path_factory: pytest.TempPathFactory, size: int, segment: int, budget: int, limit: int
) -> None:
    """Whatever was dropped of the middle, each byte comes at most once and at its logical offset; head and tail come."""
    home = tmp_path_factory.mktemp("run")
    data = bytes(index % 251 for index in range(size))
    with contextlib.closing(Folder("r", str(home), os.open(home, os.O_RDONLY), os.getuid(), segment=segment)) as folder:
        stream = written(folder, 1, data, budget, segment)
        found = pieces(folder, 1, limit)
        assert folder.sizes(1) == (size, 0)
    ends = 0
    for begin, piece in found:
        assert begin >= ends
        assert piece == data[begin : begin + len(piece)]
        assert len(piece) <= limit
        ends = begin + len(piece)
    assert ends == size
    assert sum(len(piece) for _, piece in found) == size - stream.dropped
    assert not found or found[0][0] == 0


def test_a_dropped_middle_is_jumped_over_from_anywhere_in_it(folder: Folder) -> None:
    with small(folder, 10) as part:
        written(part, 1, bytes(range(50)), 10_000, 10)
        for index in (1, 2):
            os.unlink(f"1.out.{index}", dir_fd=part.fd)
        for offset in (10, 15, 29):
            assert part.read(1, "out", offset, 4) == (30, bytes(range(30, 34)))
        assert part.read(1, "out", 50, 4) == (50, b"")
        assert part.read(1, "out", 60, 4) == (60, b"")
        assert part.sizes(1) == (50, 0)


def test_nothing_is_jumped_over_that_was_written_while_it_was_read(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at a segment's end and the look for a later one, the segment is filled and a later one begun."""
    with small(folder, 10) as part:
        stream = Stream(Budget(part.fd, 10_000, 10), "1.out", lambda what, errno: None)
        stream.write(b"01234")
        look = part._segments

        def segments(number: int, name: str) -> list[int]:
            if stream.size == 5:
                stream.write(b"56789abc")
            return look(number, name)

        monkeypatch.setattr(part, "_segments", segments)
        assert part.read(1, "out", 5, 100) == (5, b"56789")
        assert part.read(1, "out", 10, 100) == (10, b"abc")
        stream.close()


def test_streams_and_numbers_are_not_mixed_up(folder: Folder) -> None:
    for name, data in (("1.out.0", b"a"), ("11.out.0", b"bb"), ("1.err.0", b"ccc"), ("1.out.x", b"dddd"), ("1.out.", b"e")):
        Path(folder.path, name).write_bytes(data)
    assert folder.sizes(1) == (1, 3)
    assert folder.sizes(11) == (2, 0)
    assert folder.read(1, "err", 0, 10) == (0, b"ccc")
    assert folder.read(2, "out", 0, 10) == (0, b"")


# --- lock and tombstone ---


def test_who_holds_the_lock_lives(folder: Folder) -> None:
    assert not folder.is_held()
    with open(f"{folder.path}/shim.lock", "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert folder.is_held()
        assert not folder.bury()
        assert not folder.is_buried()
    assert not folder.is_held()
    assert folder.bury()
    assert folder.is_buried()
    assert folder.bury()


def test_looking_does_not_keep_the_lock(folder: Folder) -> None:
    assert not folder.is_held()
    with open(f"{folder.path}/shim.lock", "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_folder_that_was_removed_still_tells_whether_its_shim_lives(folder: Folder) -> None:
    """C06: the folder is deleted while the shim lives; the lock is the open file, not its name."""
    assert not folder.is_held()
    with open(f"{folder.path}/shim.lock", "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        os.unlink(f"{folder.path}/shim.lock")
        os.rmdir(folder.path)
        assert folder.is_held()
    assert not folder.is_held()


def test_a_full_disk_does_not_keep_a_run_from_being_settled(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(folder.path, "run.json").write_text("{}")
    assert not folder.is_held()
    real = os.open

    def full(path: str, flags: int, *rest: int, **more: int) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(path, flags, *rest, **more)

    monkeypatch.setattr(files.os, "open", full)
    assert folder.bury()
    monkeypatch.undo()
    assert folder.is_buried()
    assert names(folder) == {"over", "shim.lock"}, "no shim can begin without its instructions"


def test_secrets_go_and_the_rest_stays(folder: Folder) -> None:
    kept = {"run.json", "shim.json", "shim.jsonl", "shim.log", "1.out.0", "1.err.0", "shim.lock"}
    secret = {"caller-env", "1.order", "1.prompt", "12.stdin", ".2.order.new"}
    for name in kept | secret:
        Path(folder.path, name).write_text("x")
    folder.remove_secrets()
    folder.remove_secrets()
    assert names(folder) == kept
    assert folder.bury()
    folder.remove_secrets()
    assert names(folder) == (kept | {"over"}) - {"run.json"}, "its daemon's environment goes when no shim can begin"


def test_a_secret_that_cannot_be_removed_is_told_and_the_others_go(folder: Folder) -> None:
    assert folder.log_tail() == ""
    Path(folder.path, "caller-env").mkdir()
    folder.write_order(1, ORDER)
    with pytest.raises(NotWritable):
        folder.remove_secrets()
    assert names(folder) == {"caller-env"}


def test_a_closed_folder_touches_nothing(folder: Folder) -> None:
    """Its number may be another folder's by now, in which no lock must be made."""
    assert not folder.is_held()
    number = folder.fd
    folder.close()
    folder.close()
    assert folder.is_closed
    other = os.open("/", os.O_RDONLY)
    try:
        assert other <= number, "a number is used again"
        for call in (
            folder.is_held,
            folder.shim,
            lambda: folder.sizes(1),
            folder.remove_secrets,
            lambda: folder.write_prompt(1, "p"),
        ):
            with pytest.raises(OSError, match="Bad file descriptor"):
                call()
    finally:
        os.close(other)


# --- all of them ---


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "-a", "gone-1", "x" * 65, "ä", "a\n", "a\0b"])
def test_what_is_no_runs_id_reaches_no_path(folders: RunFolders, name: str) -> None:
    assert folders.find(name) is None
    with pytest.raises(ValueError, match="no run's id"):
        folders.make(name)
    with pytest.raises(ValueError, match="no run's id"):
        folders.retire(name)


def test_runs_are_found_listed_retired_and_removed(folders: RunFolders, tmp_path: Path) -> None:
    assert folders.names() == ()
    assert folders.find("r-1") is None
    for name in ("r-1", "r-2"):
        with contextlib.closing(folders.make(name)) as made:
            made.write_prompt(1, "p")
    home = tmp_path / ".cueloop" / "cache" / "cueloopd" / "runs"
    (home / "not a run").mkdir()
    assert folders.names() == ("r-1", "r-2")
    folders.retire("r-1")
    folders.retire("r-1")
    assert folders.names() == ("r-2",)
    assert folders.find("r-1") is None
    assert (home / "gone-r-1" / "1.prompt").exists()
    with contextlib.closing(folders.make("r-1")):
        pass
    with pytest.raises(NotWritable, match="Cannot remove"):
        folders.retire("r-1")  # what was retired is not replaced
    assert folders.names() == ("r-1", "r-2")
    folders.remove_retired()
    folders.remove_retired()
    folders.retire("r-1")
    folders.remove_retired()
    assert {path.name for path in home.iterdir()} == {"r-2", "not a run"}
    found = folders.find("r-2")
    assert found is not None
    found.close()


def test_a_folder_that_was_opened_to_others_is_closed_again(folders: RunFolders, folder: Folder) -> None:
    os.chmod(folder.path, 0o755)
    found = folders.find("r-1")
    assert found is not None
    found.close()
    assert stat.S_IMODE(os.stat(folder.path).st_mode) == 0o700


def test_another_users_folder_is_not_used(folders: RunFolders, folder: Folder, tmp_path: Path) -> None:
    others = RunFolders(Root(str(tmp_path), str(tmp_path)), os.getuid() + 1)
    with pytest.raises(PermissionError):
        others.find("r-1")
    with pytest.raises(NotWritable):
        others.make("r-1")


def test_a_link_in_a_runs_place_is_not_followed(folders: RunFolders, folder: Folder, tmp_path: Path) -> None:
    (tmp_path / ".cueloop" / "cache" / "cueloopd" / "runs" / "r-9").symlink_to(tmp_path)
    with pytest.raises(OSError, match="r-9"):
        folders.find("r-9")
    with pytest.raises(NotWritable):
        folders.make("r-9")

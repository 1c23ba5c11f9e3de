"""Taking, holding, clearing and releasing the queue lock on a real folder."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from threading import Barrier, Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cueloop_daemon.shim import queuelock
from cueloop_daemon.shim.queuelock import Absent, Foreign, Held, Made, Released
from cueloop_daemon.shim.wire import Clear

OWNER = b"pid: 4711\nstarted_at: then\ncommand: cueloopd run r\nlabel: run one\n"
ASIDE = queuelock.aside_name("run", os.getpid())


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    (tmp_path / ".cueloop").mkdir()
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / ".cueloop/lock"


@pytest.fixture
def dead() -> int:
    """The number of a process that was."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def take(root: int, owner: bytes = OWNER) -> Made | Held:
    return queuelock.take(root, ASIDE, owner, lambda _: None)


def made(root: int) -> Made:
    found = take(root)
    assert isinstance(found, Made)
    return found


def test_taken_whole(root: int, lock: Path) -> None:
    noted: list[Made] = []

    def making(what: Made) -> None:
        assert not lock.exists(), "noted before it has its name"
        noted.append(what)

    found = queuelock.take(root, ASIDE, OWNER, making)
    assert noted == [found]
    status = lock.stat()
    assert found == Made(status.st_dev, status.st_ino, OWNER)
    assert (lock / "owner").read_bytes() == OWNER
    assert [path.name for path in lock.parent.iterdir()] == ["lock"]


def test_held_by_somebody(root: int, lock: Path) -> None:
    lock.mkdir()
    (lock / "owner").write_bytes(b"pid: 1\n")
    (lock / "owner_task_1_0").write_bytes(b"")
    status = lock.stat()
    assert take(root) == Held(status.st_dev, status.st_ino, b"pid: 1\n", ("owner", "owner_task_1_0"))
    assert [path.name for path in lock.parent.iterdir()] == ["lock"], "nothing is left aside"


@pytest.mark.parametrize("kind", ["empty folder", "file", "link", "owner is a fifo"])
def test_whatever_stands_there_is_somebody_s(root: int, lock: Path, kind: str) -> None:
    """An empty folder above all: a plain rename would take its place without a word."""
    match kind:
        case "empty folder":
            lock.mkdir()
        case "file":
            lock.touch()
        case "link":
            lock.symlink_to("nowhere")
        case _:
            lock.mkdir()
            os.mkfifo(lock / "owner")
    found = take(root)
    assert isinstance(found, Held)
    assert (found.inode, found.owner) == (lock.lstat().st_ino, None)


def test_a_hundred_takers_one_lock(root: int, lock: Path) -> None:
    barrier = Barrier(20)
    found: list[Made | Held] = []

    def try_it(number: int) -> None:
        barrier.wait()
        aside = queuelock.aside_name(f"run-{number}", os.getpid())
        found.append(queuelock.take(root, aside, b"pid: %d\n" % number, lambda _: None))

    for _ in range(5):
        threads = [Thread(target=try_it, args=(number,)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (ours,) = [one for one in found if isinstance(one, Made)]
        assert {(one.inode, one.owner) for one in found} == {(ours.inode, ours.owner)}
        assert queuelock.release(root, ours) == Released(())
        assert list(lock.parent.iterdir()) == []
        found.clear()


def test_release_is_told_and_done_once(root: int, lock: Path) -> None:
    ours = made(root)
    assert queuelock.release(root, ours) == Released(())
    assert not lock.exists()
    assert queuelock.release(root, ours) == Absent()


def test_release_leaves_what_is_not_ours(root: int, lock: Path) -> None:
    ours = made(root)
    (lock / "owner").write_bytes(b"pid: 1\n")
    assert queuelock.release(root, ours) == Foreign()
    assert (lock / "owner").read_bytes() == b"pid: 1\n"


def test_release_leaves_the_side_files_of_the_living(root: int, lock: Path, dead: int) -> None:
    ours = made(root)
    (lock / f"owner_task_{dead}_0").touch()
    (lock / f"owner_task_{os.getpid()}_0").touch()
    (lock / "owner_task_x_0").touch()
    assert queuelock.release(root, ours) == Released((f"owner_task_{os.getpid()}_0", "owner_task_x_0"))
    assert isinstance(take(root), Held), "the living keep it"


def test_clear_takes_exactly_the_dead_one(root: int, lock: Path, dead: int) -> None:
    lock.mkdir()
    (lock / "owner").write_bytes(b"pid: %d\n" % dead)
    (lock / f"owner_task_{dead}_3").touch()
    standing = queuelock.look(root)
    assert standing is not None
    queuelock.clear(root, Clear(standing.device, standing.inode, b"pid: 1\n"))
    queuelock.clear(root, Clear(standing.device, standing.inode + 1, standing.owner))
    queuelock.clear(root, Clear(standing.device, standing.inode, None))
    assert lock.exists(), "judged was another one"
    queuelock.clear(root, Clear(standing.device, standing.inode, standing.owner))
    assert not lock.exists()
    queuelock.clear(root, Clear(standing.device, standing.inode, standing.owner))


def test_clear_of_one_without_an_owner(root: int, lock: Path) -> None:
    lock.mkdir()
    status = lock.stat()
    (lock / "strange").touch()
    queuelock.clear(root, Clear(status.st_dev, status.st_ino, None))
    assert (lock / "strange").exists(), "only an empty folder goes"
    (lock / "strange").unlink()
    queuelock.clear(root, Clear(status.st_dev, status.st_ino, None))
    assert not lock.exists()


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EINVAL])
def test_where_nothing_can_be_renamed_without_replacing(
    root: int, lock: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fails(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(queuelock, "rename_new", fails)
    ours = made(root)
    assert (lock / "owner").read_bytes() == OWNER
    assert (ours.inode, [path.name for path in lock.parent.iterdir()]) == (lock.stat().st_ino, ["lock"])
    assert isinstance(take(root), Held)
    assert queuelock.release(root, ours) == Released(())


@pytest.mark.parametrize("step", ["mkdir", "fsync", "rename_new"])
def test_a_full_disk_leaves_nothing(root: int, lock: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(*((queuelock, step) if step == "rename_new" else (os, step)), fails)
    with pytest.raises(OSError, match="No space left"):
        take(root)
    monkeypatch.undo()
    assert list(lock.parent.iterdir()) == []


def test_what_a_dead_shim_was_making_is_swept(root: int, lock: Path, dead: int) -> None:
    for pid in (dead, os.getpid() + 0):
        (lock.parent / queuelock.aside_name("other-run", pid)).mkdir()
    (lock.parent / queuelock.aside_name("other-run", dead) / "owner").touch()
    made(root)
    left = sorted(path.name for path in lock.parent.iterdir())
    assert left == [queuelock.aside_name("other-run", os.getpid()), "lock"], "the living one's stays"


def test_no_folder_for_it(root: int, lock: Path) -> None:
    lock.parent.rmdir()
    with pytest.raises(FileNotFoundError):
        take(root)


def test_modes_are_those_of_the_umask(root: int, lock: Path) -> None:
    before = os.umask(0o022)
    try:
        made(root)
    finally:
        os.umask(before)
    assert stat.S_IMODE(lock.stat().st_mode) == 0o755
    assert stat.S_IMODE((lock / "owner").stat().st_mode) == 0o644


@given(st.text(), st.text(), st.text())
def test_an_owner_file_has_four_lines_whatever_is_in_them(started_at: str, command: str, label: str) -> None:
    data = queuelock.owner_file(7, started_at, command, label)
    assert data.endswith(b"\n")
    lines = data.decode().removesuffix("\n").split("\n")
    assert [line.partition(":")[0] for line in lines] == ["pid", "started_at", "command", "label"]
    assert lines[0] == "pid: 7"

"""Reading what a dead shim left on record, whatever state the file is in, and the queue lock that it left."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cueloop_daemon.runs.shim import Born, ShimRecord, autopsy, read_record, release_lock
from cueloop_daemon.runs.shim.autopsy import parse_record
from cueloop_daemon.runs.types import Exited, LockMade, NotStarted
from cueloop_daemon.shim.record import ALLOCATED, Record
from cueloop_daemon.shim.wire import encode
from cueloop_daemon.store.not_writable import NotWritable
from cueloop_protocol.roots import Root
from runs.shim_world import ShimWorld, see_through, shim_world

AT = "2026-11-30T12:00:00.000000000Z"
EXIT = {"code": 0, "signal": None, "cause": "self", "out": 5, "err": 0, "dropped": 0}
LINES = [
    encode("up", pid=5, start="50", boot="b-1"),
    encode("lock", n=1, dev=10, ino=20, owner="pid: 5\nlabel: caf\udce9\n"),
    encode("child", n=2, pid=6, start="60"),
    encode("exit", n=2, **EXIT),
    encode("child", n=3, pid=7, start="70"),
    encode("failed", n=3, stage="exec", errno=2),
    encode("bar", n=4),
    encode("child", n=5, pid=8, start="80"),
    encode("unlock", n=6),
    encode("cancelled"),
    encode("bye", why="cancelled"),
]
OWNER = b"pid: 5\nlabel: caf\xe9\n"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ShimWorld]:
    with shim_world(tmp_path) as made:
        yield made


def test_everything_is_read() -> None:
    found = parse_record(b"".join(LINES))
    assert found == ShimRecord(
        boot="b-1",
        children=(Born(2, 6, "60"), Born(3, 7, "70"), Born(5, 8, "80")),
        exits={2: Exited(0, None, "self", 5, 0, 0)},
        failures={3: NotStarted("exec", 2)},
        lock=None,
        is_cancelled=True,
        farewell="cancelled",
    )
    assert found.survivors == (Born(5, 8, "80"),)


@pytest.mark.parametrize(("upto", "lock"), [(1, None), (2, LockMade(10, 20, OWNER)), (8, LockMade(10, 20, OWNER)), (9, None)])
def test_the_lock_is_the_last_that_was_not_let_go(upto: int, lock: LockMade | None) -> None:
    assert parse_record(b"".join(LINES[:upto])).lock == lock


def test_a_record_that_ends_anywhere_says_what_was_written_before() -> None:
    """Killed within a write, in a file that is longer than what was written."""
    for cut in range(len(b"".join(LINES)) + 1):
        whole, total = 0, 0
        for line in LINES:
            total += len(line)
            whole += total - 1 <= cut  # the line feed carries nothing: without it the record is as good
        expected = parse_record(b"".join(LINES[:whole]))
        data = b"".join(LINES)[:cut]
        assert parse_record(data) == expected
        assert parse_record(data + b"\0" * 100) == expected


@given(st.lists(st.one_of(st.sampled_from(LINES), st.binary(max_size=80), st.text(max_size=40).map(str.encode)), max_size=30))
@settings(deadline=None)
def test_whatever_is_in_the_file_is_survived(lines: list[bytes]) -> None:
    found = parse_record(b"\n".join(lines))
    assert set(found.survivors) <= set(found.children)


@pytest.mark.parametrize(
    "line",
    [
        b'{"child": {"n": "1", "pid": 5, "start": "5"}}',
        b'{"child": {"n": 1, "pid": 5}}',
        b'{"child": [1, 5, "5"]}',
        b'{"child": {"n": 1, "pid": true, "start": "5"}}',
        b'{"child": {"n": 1, "pid": 5, "start": "5"}, "exit": {}}',
        b'{"exit": {"n": 1, "code": 0, "signal": null, "cause": "weather", "out": 0, "err": 0, "dropped": 0}}',
        b'{"lock": {"n": 1, "dev": 1, "ino": 1, "owner": "\\ud800"}}',
        b'{"lock": {"n": 1, "dev": 1, "ino": 1, "owner": 5}}',
        b"[" * 100_000,
    ],
)
def test_a_line_that_is_none_says_nothing(line: bytes) -> None:
    assert parse_record(line + b"\n") == ShimRecord()


def test_it_reads_what_the_shim_writes(world: ShimWorld) -> None:
    """By the writer itself, with its file of 64 KiB."""
    record = Record(world.folder.fd)
    for line in LINES:
        assert record._unwritten == []
        record._unwritten.append(line)
        assert record.flush() is None
    assert os.stat("shim.jsonl", dir_fd=world.folder.fd).st_size == ALLOCATED
    assert read_record(world.folder) == parse_record(b"".join(LINES))


def test_no_shim_no_record(world: ShimWorld) -> None:
    assert read_record(world.folder) == ShimRecord()


async def test_after_a_kill_the_record_has_the_child_the_exit_and_the_lock(world: ShimWorld) -> None:
    async with world.link() as link:
        made = await link.lock(1, "run one", "c", AT)
        await link.start(world.order(2, "exit 3"))
        _, ended = await see_through(link, 2)
        started = await link.start(world.order(3, "sleep 60"))
        world.kill_shim()
        await link.lost.wait()
    found = read_record(world.folder)
    assert found.exits == {2: ended}
    assert [(one.number, one.pid) for one in found.survivors] == [(3, started.pid)]  # type: ignore[union-attr]  # it was started
    assert found.lock == made
    assert not found.is_cancelled
    assert found.farewell is None
    assert found.lock is not None
    assert release_lock(world.root, found.lock)
    assert not world.lock.exists()


async def test_a_shim_that_left_says_why(world: ShimWorld) -> None:
    async with world.link() as link:
        assert await link.end()
    assert read_record(world.folder).farewell == "end"


# --- the lock it left ---


def lock_of(root: Path, owner: bytes | None, *names: str) -> LockMade:
    folder = root / ".cueloop" / "lock"
    folder.mkdir(parents=True)
    if owner is not None:
        (folder / "owner").write_bytes(owner)
    for name in names:
        (folder / name).write_text("")
    status = folder.stat()
    return LockMade(status.st_dev, status.st_ino, owner or b"ours")


def test_our_lock_is_removed_whoever_has_the_pid_now(tmp_path: Path) -> None:
    root = Root(str(tmp_path), str(tmp_path))
    made = lock_of(tmp_path, f"pid: {os.getppid()}\n".encode())
    assert release_lock(root, made)
    assert not (tmp_path / ".cueloop" / "lock").exists()
    assert release_lock(root, made)


def test_our_lock_without_its_owner_file_is_removed_by_its_inode(tmp_path: Path) -> None:
    """Killed between making the folder and writing the owner, where nothing could be renamed into place."""
    assert release_lock(Root(str(tmp_path), str(tmp_path)), lock_of(tmp_path, None))
    assert not (tmp_path / ".cueloop" / "lock").exists()


def test_a_lock_that_somebody_else_made_in_its_place_stays(tmp_path: Path) -> None:
    root = Root(str(tmp_path), str(tmp_path))
    made = lock_of(tmp_path, b"pid: 77\n")
    owner = tmp_path / ".cueloop" / "lock" / "owner"
    assert not release_lock(root, LockMade(made.device, made.inode + 1, made.owner))
    owner.write_bytes(b"pid: 78\n")
    assert not release_lock(root, made)
    assert owner.read_bytes() == b"pid: 78\n"


def test_live_helpers_keep_the_lock_and_dead_ones_do_not(tmp_path: Path) -> None:
    root = Root(str(tmp_path), str(tmp_path))
    made = lock_of(tmp_path, b"pid: 77\n", f"owner_task_{os.getpid()}_1", "owner_task_2147483646_2")
    assert not release_lock(root, made)
    assert [path.name for path in (tmp_path / ".cueloop" / "lock").iterdir()] == [f"owner_task_{os.getpid()}_1"]


def test_a_repository_without_a_lock_folder_has_none(tmp_path: Path) -> None:
    (tmp_path / ".cueloop").mkdir()
    assert release_lock(Root(str(tmp_path), str(tmp_path)), LockMade(1, 1, b""))


def test_a_lock_that_cannot_be_removed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    made = lock_of(tmp_path, b"pid: 77\n")
    monkeypatch.setattr(autopsy.queuelock, "clear", read_only)
    with pytest.raises(NotWritable, match="read-only"):
        release_lock(Root(str(tmp_path), str(tmp_path)), made)

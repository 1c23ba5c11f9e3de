"""Reading the queue lock."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cueloop_daemon.core.model import QueueLock
from cueloop_daemon.store.queue_lock import Owner, is_live, parse_owner, read_queue_lock
from cueloop_protocol.roots import Root

OWN = os.getpid()
OWNER = "pid: {pid}\nstarted_at: 2026-02-07T10:00:00Z\ncommand: cueloop run loop\nlabel: run loop\n"


class Kill:
    """Signal 0 without a process: `alive` live, `foreign` belong to others; `asked` is who was asked about."""

    def __init__(self, alive: set[int] = frozenset(), foreign: set[int] = frozenset()) -> None:  # type: ignore[assignment]
        self.alive = alive
        self.foreign = foreign
        self.asked: list[int] = []

    def __call__(self, pid: int, number: int) -> None:
        assert number == 0
        self.asked.append(pid)
        if pid in self.foreign:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        if pid not in self.alive:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))


@pytest.fixture
def hold(tmp_path: Path) -> Callable[[dict[str, str]], Root]:
    def make(files: dict[str, str]) -> Root:
        folder = tmp_path / ".cueloop" / "lock"
        folder.mkdir(parents=True)
        for name, text in files.items():
            (folder / name).write_text(text)
        return Root(str(tmp_path), str(tmp_path))

    return make


Hold = Callable[[dict[str, str]], Root]


def test_nobody(tmp_path: Path) -> None:
    root = Root(str(tmp_path), str(tmp_path))
    assert read_queue_lock(root, OWN) is None
    (tmp_path / ".cueloop").mkdir()
    assert read_queue_lock(root, OWN) is None
    (tmp_path / ".cueloop" / "lock").write_text("no folder, so no lock")
    assert read_queue_lock(root, OWN) is None


@pytest.mark.parametrize(("kill", "live"), [(Kill(alive={4711}), True), (Kill(foreign={4711}), True), (Kill(), False)])
def test_held(hold: Hold, kill: Kill, live: bool) -> None:
    root = hold({"owner": OWNER.format(pid=4711)})
    assert read_queue_lock(root, OWN, kill) == QueueLock("run loop", 4711, "2026-02-07T10:00:00Z", live)
    assert kill.asked == [4711]


@pytest.mark.parametrize(
    "pid",
    [
        "0",
        "-1",
        "-4711",
        pytest.param(str(OWN), id="own"),
        "abc",
        "",
        "99999999999",
        "2147483648",
        "4711 4712",
        "4711.0",
        "0x10",
        "٤٧١١",
        "1e3",
    ],
)
def test_f01_such_a_pid_never_reaches_kill(hold: Hold, pid: str) -> None:
    """F01: nobody is asked about a number that is no process of another's, and the lock still counts as held."""
    kill = Kill(alive={0, 1, -1, OWN})
    lock = read_queue_lock(hold({"owner": OWNER.format(pid=pid)}), OWN, kill)
    assert kill.asked == []
    assert lock is not None
    assert (lock.live, lock.label) == (False, "run loop")


@given(st.one_of(st.none(), st.integers(max_value=0), st.integers(min_value=2**31), st.just(OWN)))
def test_f01_for_any_number(pid: int | None) -> None:
    kill = Kill()
    assert not is_live(pid, OWN, kill)
    assert kill.asked == []


def test_f01_the_first_process_always_lives(hold: Hold) -> None:
    """In a container the tool itself may be it; nobody has to be asked."""
    kill = Kill()
    lock = read_queue_lock(hold({"owner": OWNER.format(pid=1)}), OWN, kill)
    assert lock is not None
    assert (lock.pid, lock.live, kill.asked) == (1, True, [])


def test_a_real_process_and_a_dead_one(hold: Hold) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        root = hold({"owner": OWNER.format(pid=process.pid)})
        lock = read_queue_lock(root, OWN)
        assert lock is not None
        assert lock.live
        process.communicate(b"\n")
    lock = read_queue_lock(root, OWN)
    assert lock is not None
    assert not lock.live


def test_a_folder_without_owner(hold: Hold) -> None:
    """Between the mkdir and the owner file, or after a crash there."""
    assert read_queue_lock(hold({}), OWN) == QueueLock(None, None, None, live=False)


def test_side_files_hold_the_lock_while_one_lives(hold: Hold) -> None:
    side = "pid: {}\nlabel: task\nstarted_at: T{}\n"
    root = hold({"owner_task_20_1": side.format(20, 1), "owner_task_30_2": side.format(30, 2), "other": side.format(40, 3)})
    assert read_queue_lock(root, OWN, Kill(alive={30, 40})) == QueueLock("task", 30, "T2", live=True)
    assert read_queue_lock(root, OWN, Kill()) == QueueLock("task", 20, "T1", live=False)


def test_the_owner_counts_before_side_files(hold: Hold) -> None:
    root = hold({"owner": OWNER.format(pid=10), "owner_task_20_1": "pid: 20\nlabel: task\n"})
    lock = read_queue_lock(root, OWN, Kill(alive={10, 20}))
    assert lock is not None
    assert lock.pid == 10


@pytest.mark.parametrize("kind", ["fifo", "folder", "link"])
def test_an_owner_that_is_no_file_says_nothing_and_blocks_nobody(hold: Hold, kind: str) -> None:
    root = hold({})
    owner = Path(root.path, ".cueloop", "lock", "owner")
    {"fifo": os.mkfifo, "folder": os.mkdir, "link": lambda path: os.symlink("/etc/passwd", path)}[kind](owner)
    assert read_queue_lock(root, OWN) == QueueLock(None, None, None, live=False)


@pytest.mark.parametrize(
    ("data", "owner"),
    [
        (b"", Owner(None, None, None, None)),
        (b"pid:7\r\nlabel:  run one  \r\n", Owner(7, None, None, "run one")),
        (b"label: a: b\npid: 7\npid: 8\nlabel: c\n", Owner(7, None, None, "a: b")),
        (b"pid\nlabel\nnonsense: x\n: y\n", Owner(None, None, None, None)),
        (b"command: \xff\nlabel: \npid: +7", Owner(7, None, "�", None)),
    ],
)
def test_parse(data: bytes, owner: Owner) -> None:
    assert parse_owner(data) == owner


@given(st.binary(max_size=300))
def test_parse_any_bytes(data: bytes) -> None:
    owner = parse_owner(data)
    assert owner.pid is None or owner.pid > 1


def test_reading_changes_nothing(hold: Hold) -> None:
    root = hold({"owner": OWNER.format(pid=2**31 - 1), "owner_task_2147483646_1": "pid: 2147483646\n"})
    folder = Path(root.path, ".cueloop", "lock")
    before = {path.name: path.stat() for path in (folder, *folder.iterdir())}
    read_queue_lock(root, OWN, Kill())
    after = {path.name: path.stat() for path in (folder, *folder.iterdir())}
    assert {name: (stat.st_ino, stat.st_mtime_ns, stat.st_size) for name, stat in before.items()} == {
        name: (stat.st_ino, stat.st_mtime_ns, stat.st_size) for name, stat in after.items()
    }

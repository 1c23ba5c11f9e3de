"""Whether a queue lock's holder is dead."""

from __future__ import annotations

import errno
import os

import pytest

from cueloop_daemon.runs.shim import judge_with
from cueloop_daemon.runs.types import LockHeld

LIVING, FOREIGN, OURS = 300, 301, 302


def kill(pid: int, number: int) -> None:
    assert number == 0
    if pid == FOREIGN:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
    if pid not in (LIVING, OURS):
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))


def judged(owner: bytes | None, *names: str) -> LockHeld:
    runs = {"live-run": True, "dead-run": False}
    return judge_with(lambda: (OURS,), runs.get, kill)(owner, names)


@pytest.mark.parametrize(
    ("name", "owner", "live"),
    [
        ("a living process", b"pid: 300\n", True),
        ("another user's", b"pid: 301\n", True),
        ("nobody", b"pid: 999\n", False),
        ("our own number, which was another's before", b"pid: 302\n", False),
        ("F01: 0", b"pid: 0\n", False),
        ("F01: 1 is a container's first process", b"pid: 1\n", True),
        ("F01: a group", b"pid: -1\n", False),
        ("F01: no number", b"pid: abc\n", False),
        ("F01: too large", b"pid: 99999999999\n", False),
        ("F01: empty", b"", False),
        ("a live run whatever its pid", b"pid: 999\ncommand: cueloopd run live-run\n", True),
        ("a dead run whatever its pid", b"pid: 300\ncommand: cueloopd run dead-run\n", False),
        ("a run of another repository", b"pid: 300\ncommand: cueloopd run strange-run\n", True),
        ("a command that only looks like it", b"pid: 300\ncommand: cueloopd run ../dead-run\n", True),
    ],
)
def test_who_lives(name: str, owner: bytes, live: bool) -> None:
    assert judged(owner).live is live


def test_what_the_file_says_is_told() -> None:
    assert judged(b"label: queue import\npid: 300\nstarted_at: then\n") == LockHeld(300, "queue import", "then", True)


@pytest.mark.parametrize(
    ("names", "pid", "live"),
    [
        ((), None, False),
        (("owner_task_300_1",), 300, True),
        (("owner_task_999_1", "owner_task_300_2"), 300, True),
        (("x",), None, False),
    ],
)
def test_without_an_owner_its_helpers_count(names: tuple[str, ...], pid: int | None, live: bool) -> None:
    assert judged(None, *names) == LockHeld(pid, None, None, live)


def test_a_run_that_cannot_be_looked_at_is_judged_by_its_pid() -> None:
    def broken(run_id: str) -> bool | None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    for pid, live in ((LIVING, True), (999, False)):
        owner = f"pid: {pid}\ncommand: cueloopd run some-run\n".encode()
        assert judge_with(lambda: (), broken, kill)(owner, ()).live is live

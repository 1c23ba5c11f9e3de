"""Reading the queue lock (contract section 8). Takes nothing, changes nothing. Standard library only below `core.model`."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Callable

from cueloop_daemon.core.model import QueueLock
from cueloop_protocol.identity import is_pid
from cueloop_protocol.roots import Root
from cueloop_protocol.values import dataclass

LOCK = (".cueloop", "lock")
OWNER = "owner"
_LIMIT = 4096
_SIDE_FILE = re.compile(r"owner_task_[0-9]+_[0-9]+", re.ASCII)
_PID = re.compile(r"\+?[0-9]{1,10}", re.ASCII)

Kill = Callable[[int, int], object]


@dataclass(frozen=True, slots=True)
class Owner:
    """What an owner file says; None for what it does not, or not in a form that can be meant."""

    pid: int | None
    started_at: str | None
    command: str | None
    label: str | None


def read_queue_lock(root: Root, own_pid: int, kill: Kill = os.kill) -> QueueLock | None:
    """Who holds the queue lock, None if nobody.

    A folder without a readable owner is held by somebody unknown, who counts as not alive. `live` is what signal 0 says of the
    pid; the reader's own pid is not the holder's (it takes no lock), so the number was used again. Raises `OSError` only where
    the folder cannot be listed.
    """
    folder = root.join(*LOCK)
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return None
    owners = [_read(f"{folder}/{OWNER}")] if OWNER in names else []
    if not owners:
        # An agent's own commands leave side files; the lock stays while the process of one of them lives.
        side = [_read(f"{folder}/{name}") for name in sorted(names) if _SIDE_FILE.fullmatch(name)]
        owners = sorted(side, key=lambda owner: not is_live(owner.pid, own_pid, kill))
    if not owners:
        return QueueLock(label=None, pid=None, started_at=None, live=False)
    owner = owners[0]
    return QueueLock(owner.label, owner.pid, owner.started_at, is_live(owner.pid, own_pid, kill))


def parse_owner(data: bytes) -> Owner:
    """Lines of `key: value`, in any order; the first of a key counts."""
    values: dict[str, str] = {}
    for line in data.decode("utf-8", "replace").splitlines():
        key, colon, value = line.partition(":")
        if colon and value.strip():
            values.setdefault(key.strip(), value.strip())
    return Owner(_pid(values.get("pid", "")), values.get("started_at"), values.get("command"), values.get("label"))


def is_live(pid: int | None, own_pid: int, kill: Kill = os.kill) -> bool:
    """Whether a process has this number. 0, 1, negatives, our own and what is no pid never reach the system call.

    Number 1 is always alive: a container's first process may well hold the lock.
    """
    if pid == 1:
        return True
    if pid is None or not is_pid(pid) or pid == own_pid:
        return False
    try:
        kill(pid, 0)
    except OSError as exc:
        return exc.errno == errno.EPERM  # it lives, as another user
    return True


def _pid(text: str) -> int | None:
    number = int(text) if _PID.fullmatch(text) else 0
    return number if number == 1 or is_pid(number) else None


def _read(path: str) -> Owner:
    """An owner file that is no plain file, or cannot be read, says nothing."""
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if stat.S_ISREG(os.fstat(fd).st_mode):
                return parse_owner(os.read(fd, _LIMIT))
        finally:
            os.close(fd)
    return Owner(None, None, None, None)

"""The processes that descend from a child, wherever they went. Standard library only.

Linux: the shim is a subreaper, so that whoever loses its parent becomes the shim's child, and everything that a child ever started
hangs below the shim until it is dead and reaped. macOS has no such thing: there the child's process group is all that is seen.
"""

from __future__ import annotations

import os
import sys

from cueloop_daemon.shim.lean import signal, suppress
from cueloop_protocol.frozen import Frozen
from cueloop_protocol.identity import boot_id, is_pid, process_start_time, send_signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PR_SET_CHILD_SUBREAPER = 36
_PROC_PGRP_ONLY = 2


class Kin(Frozen):
    """A live process; `group` is its process group, `start` as `identity` words it."""

    pid: int
    start: str
    group: int
    name: str


def be_subreaper(wanted: bool) -> None:
    """Become the parent of all orphans below, or cease to. Raises OSError; nothing happens where there is no such thing."""
    if sys.platform == "linux":
        import ctypes

        library = ctypes.CDLL(None, use_errno=True)
        if library.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(wanted), 0, 0, 0):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


def living(group: int) -> tuple[Kin, ...]:
    """Who lives below this process (Linux) or in the process group (elsewhere); zombies are dead.

    The kernel lists children one process after the other, and somebody may change parents meanwhile: nobody is found only when
    two looks found nobody.
    """
    look: Callable[[], Iterator[Kin]] = _below if sys.platform == "linux" else lambda: _in_group(group)
    return tuple(look()) or tuple(look())


def reap_orphans(keep: int | None) -> None:
    """Reap the dead children that are not `keep`."""
    for pid in _children(os.getpid()) if sys.platform == "linux" else ():
        if pid != keep:
            with suppress(OSError):
                os.waitpid(pid, os.WNOHANG)


def has_died(pid: int) -> bool:
    """Whether a child of ours has ended; it is not reaped."""
    if hasattr(os, "waitid"):
        with suppress(ChildProcessError):
            return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
        return True
    return process_start_time(pid) is None  # macOS before Python 3.13


def end_kin(kin: tuple[Kin, ...], group: int, number: int) -> None:
    """Signal the group once, and each of `kin` that has left it. The group's leader must not have been reaped: it pins the number.

    The stopped are woken for all but KILL, which needs no waking.
    """
    numbers = (number,) if number == signal.SIGKILL else (number, signal.SIGCONT)
    for one in numbers:
        if is_pid(group):
            with suppress(OSError):
                os.killpg(group, one)
        for other in kin:
            if other.group != group:
                with suppress(OSError):
                    send_signal(other.pid, other.start, boot_id(), one)


def _below() -> Iterator[Kin]:
    """Every process below this one that is not dead."""
    seen = {os.getpid()}
    waiting = _children(os.getpid())
    while waiting:
        pid = waiting.pop()
        if pid in seen:
            continue
        seen.add(pid)
        waiting += _children(pid)
        kin = _kin_linux(pid)
        if kin is not None:
            yield kin


def _children(pid: int) -> list[int]:
    """The children of all threads of a process; nobody if it is gone. Kernels that keep no list: everybody's parent is looked at."""
    found: list[int] = []
    if not os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children"):
        return _children_by_parent(pid)
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError), open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                found += [int(one) for one in file.read().split()]
    return found


def _children_by_parent(pid: int) -> list[int]:
    parent = str(pid).encode("ascii")
    everybody = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [one for one in everybody if _stat_fields(one)[1:2] == [parent]]


def _kin_linux(pid: int) -> Kin | None:
    fields = _stat_fields(pid)
    if len(fields) < 20 or fields[0] in (b"Z", b"X", b"x"):
        return None
    return Kin(pid, fields[19].decode("ascii"), int(fields[2]), _name(pid))


def _stat_fields(pid: int) -> list[bytes]:
    """`/proc/<pid>/stat` from field 3 (the state) on; empty for nobody."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            data = file.read()
    except OSError:
        return []
    return data[data.rfind(b")") + 1 :].split()


def _name(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            return file.read().strip().decode("utf-8", "replace")
    except OSError:
        return ""


def _in_group(group: int) -> Iterator[Kin]:
    """macOS: the members of a process group that are not dead (`proc_listpids`; the start time is what tells the dead)."""
    import ctypes

    if not is_pid(group):
        return
    pids = (ctypes.c_int * 4096)()
    size = ctypes.sizeof(pids)
    library = ctypes.CDLL("/usr/lib/libproc.dylib")
    filled = library.proc_listpids(_PROC_PGRP_ONLY, ctypes.c_uint32(group), pids, size)
    for pid in pids[: max(0, filled) // ctypes.sizeof(ctypes.c_int)]:
        start = process_start_time(pid)
        if start is not None:
            yield Kin(pid, start, group, "")

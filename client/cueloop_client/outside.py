"""What the system tells of a process of ours that says nothing itself. Standard library only."""

from __future__ import annotations

import os

from cueloop_protocol.frozen import Frozen

CONDITIONS = {"T": "stopped by a signal", "t": "stopped by a debugger", "D": "waiting for a device", "Z": "dead, not yet reaped"}
"""Letters of `/proc/<pid>/stat` that explain why a process does not answer → what they mean."""


class Outside(Frozen):
    """A process seen from outside; None is what the system does not tell. `condition` is set if it explains a silence."""

    memory_bytes: int | None = None
    uptime_seconds: float | None = None
    condition: str | None = None


def heir_of(pid: int, root: str) -> int | None:
    """The process that takes over from the daemon `pid` of this root, or as which that one takes over; None if none does.

    As far as `/proc` has command lines: two daemons of one repository live only while one replaces the other. Never raises.
    """
    daemons = [found for number in _pids() if (found := _daemon(number, os.fsencode(root))) is not None]
    numbers = {found.pid for found in daemons}
    apart = [found for found in daemons if found.parent not in numbers]  # not what is about to become a git process
    if pid not in numbers or len(apart) < 2:
        return None
    latest = max(apart, key=lambda found: (found.start, found.pid))
    return latest.pid if latest.takes_over else None


class _Daemon(Frozen):
    """What a daemon's process shows; `start` in ticks since the boot."""

    pid: int
    parent: int
    start: int
    takes_over: bool


def _pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def _daemon(pid: int, root: bytes) -> _Daemon | None:
    """The process if it is one of ours whose command line is a daemon's of this root."""
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.getuid():
            return None
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            argv = file.read().split(b"\0")
        if b"--root" not in argv or argv[argv.index(b"--root") + 1 :][:1] != [root]:
            return None
        fields = _stat(pid)
        return _Daemon(pid=pid, parent=int(fields[1]), start=int(fields[19]), takes_over=b"--take-over" in argv)
    except (OSError, ValueError, IndexError):
        return None


def _stat(pid: int) -> list[bytes]:
    """The fields of `/proc/<pid>/stat` from the state on. Raises OSError."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        data = file.read()
    return data[data.rfind(b")") + 1 :].split()


def seen_from_outside(pid: int) -> Outside:
    """Memory, age and condition of the process, as far as `/proc` has them. Never raises."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            memory = int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
        fields = _stat(pid)
        with open("/proc/uptime", "rb") as file:
            up = float(file.read().split()[0])
        age = max(0.0, round(up - int(fields[19]) / os.sysconf("SC_CLK_TCK"), 2))
        return Outside(memory, age, CONDITIONS.get(fields[0].decode("ascii")))
    except (OSError, ValueError, IndexError):
        return Outside()

"""What the system tells of a process. Linux: everything is read from /proc."""

from __future__ import annotations

import os
import select
import signal
from pathlib import Path


class NotMeasurable(Exception):
    """This system does not tell what a figure needs; `str()` says what."""


def cpu_seconds(pid: int) -> float:
    """CPU time of all threads of a process so far. Exact to the nanosecond where the kernel keeps scheduler figures."""
    try:
        return sum(int((task / "schedstat").read_text().split()[0]) for task in _tasks(pid)) / 1e9
    except OSError:
        fields = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """Memory of a process that is in RAM, in MB of 1,000,000 bytes, shared pages included."""
    return int(_text(f"/proc/{pid}/statm").split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def peak_mb(pid: int) -> float:
    """The most memory of a process that ever was in RAM, in MB of 1,000,000 bytes."""
    (line,) = [line for line in _text(f"/proc/{pid}/status").splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024 / 1e6


def wakeups(pid: int) -> dict[str, int]:
    """How often each thread of a process has gone to sleep so far, which is followed by its waking up."""
    found = {}
    for task in _tasks(pid):
        for line in _text(f"{task}/status").splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                found[task.name] = int(line.split()[1])
    return found


def more(before: dict[str, int], after: dict[str, int]) -> int:
    """How many more there are `after`; a thread that began in between counts whole, one that ended not at all."""
    return sum(count - before.get(thread, 0) for thread, count in after.items())


def threads(pid: int) -> int:
    """How many threads a process has."""
    return len(_tasks(pid))


def end(pid: int, within: float = 10.0) -> None:
    """Ask a process of ours to end, and return when it has; TimeoutError after `within` seconds. Nothing if it is gone."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(handle, signal.SIGTERM)
        if not select.select([handle], [], [], within)[0]:
            raise TimeoutError(f"process {pid} did not end within {within:g} s")
    except ProcessLookupError:
        return
    finally:
        os.close(handle)


def _tasks(pid: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except OSError as exc:
        raise NotMeasurable("this system has no /proc") from exc


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError as exc:
        raise NotMeasurable(f"this system has no {path}") from exc

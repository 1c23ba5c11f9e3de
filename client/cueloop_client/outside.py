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


def seen_from_outside(pid: int) -> Outside:
    """Memory, age and condition of the process, as far as `/proc` has them. Never raises."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            memory = int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
        with open(f"/proc/{pid}/stat", "rb") as file:
            data = file.read()
        fields = data[data.rfind(b")") + 1 :].split()
        with open("/proc/uptime", "rb") as file:
            up = float(file.read().split()[0])
        age = max(0.0, round(up - int(fields[19]) / os.sysconf("SC_CLK_TCK"), 2))
        return Outside(memory, age, CONDITIONS.get(fields[0].decode("ascii")))
    except (OSError, ValueError, IndexError):
        return Outside()

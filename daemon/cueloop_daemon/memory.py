"""How much memory this process has."""

from __future__ import annotations

import resource
import sys


def resident_bytes() -> int:
    """Bytes of this process that are in memory now; on systems that do not tell, the most there ever were."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024

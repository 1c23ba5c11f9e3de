"""An end that comes whatever hangs: a timer in a thread of its own. Standard library only."""

from __future__ import annotations

import os
import threading

EXIT_CODE = 70

_timers: list[threading.Timer] = []


def give_up() -> None:
    """Something hangs that cannot be cancelled; an end is promised, so here it is. What was acknowledged is on disk."""
    os._exit(EXIT_CODE)


def end_by(seconds: float) -> None:
    """The process ends in so many seconds, if it has not by then. A later call replaces an earlier one."""
    while _timers:
        _timers.pop().cancel()
    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    timer.start()
    _timers.append(timer)

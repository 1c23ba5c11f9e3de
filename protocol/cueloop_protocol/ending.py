"""Waiting until a process is really gone. Standard library only."""

from __future__ import annotations

import os
import select
import sys
import time

from cueloop_protocol.identity import boot_id, is_same_process, process_start_time

LOOK = 0.05
"""Seconds between two looks where the system has no descriptor for a process."""


def has_ended(pid: int, start_time: str, boot: str, seconds: float) -> bool:
    """Whether the process that was recorded so has ended, waiting for it up to so many seconds. Blocking."""
    wait = _by_descriptor if sys.platform == "linux" else _by_looking
    return wait(pid, start_time, boot, max(seconds, 0.0))


def _by_descriptor(pid: int, start_time: str, boot: str, seconds: float) -> bool:
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    except OSError:
        return _by_looking(pid, start_time, boot, seconds)
    try:
        # Opened first, looked at second: another start time is another process, and ours is gone. None at all is a zombie, whose
        # other threads may still hold its sockets; the descriptor tells when the last of them has ended.
        if process_start_time(pid) not in (start_time, None) or boot != boot_id():
            return True
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(fd)


def _by_looking(pid: int, start_time: str, boot: str, seconds: float) -> bool:
    from threading import Event

    pause, until = Event(), time.monotonic() + seconds
    while is_same_process(pid, start_time, boot):
        left = until - time.monotonic()
        if left <= 0:
            return False
        pause.wait(min(LOOK, left))
    return True

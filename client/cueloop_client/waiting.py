"""Waiting until a process is really gone. Standard library only."""

from __future__ import annotations

import os
import select
import sys

from cueloop_client.failures import Silent
from cueloop_protocol.identity import boot_id, is_same_process, process_start_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_client.reach import Process
    from cueloop_client.world import Deadline


def await_end(process: Process, deadline: Deadline) -> None:
    """Return when the process has ended. Raises Silent if it has not by the deadline."""
    waited = _await_descriptor if sys.platform == "linux" else _await_looking
    if not waited(process, deadline):
        raise Silent(
            f"The daemon (process {process.pid}) is still there after {deadline.seconds:g} s.",
            f"If it hangs, end it with: kill -9 {process.pid}",
        )


def _await_descriptor(process: Process, deadline: Deadline) -> bool:
    try:
        fd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return True
    except OSError:
        return _await_looking(process, deadline)
    try:
        # Opened first, looked at second: another start time is another process, and ours is gone. None at all is a zombie, whose
        # other threads may still hold its sockets; the descriptor tells when the last of them has ended.
        if process_start_time(process.pid) not in (process.start_time, None) or process.boot_id != boot_id():
            return True
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        return bool(poll.poll(deadline.left() * 1000))
    finally:
        os.close(fd)


def _await_looking(process: Process, deadline: Deadline) -> bool:
    from threading import Event

    pause = Event()
    while is_same_process(process.pid, process.start_time, process.boot_id):
        if deadline.is_over():
            return False
        pause.wait(min(0.05, deadline.left()))
    return True

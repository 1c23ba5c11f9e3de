"""Waiting until a process is really gone. Standard library only."""

from __future__ import annotations

from cueloop_client.failures import Silent
from cueloop_protocol.ending import has_ended

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_client.reach import Process
    from cueloop_client.world import Deadline


def await_end(process: Process, deadline: Deadline) -> None:
    """Return when the process has ended. Raises Silent if it has not by the deadline."""
    if not has_ended(process.pid, process.start_time, process.boot_id, deadline.left()):
        raise Silent(
            f"The daemon (process {process.pid}) is still there after {deadline.seconds:g} s.",
            f"If it hangs, end it with: kill -9 {process.pid}",
        )

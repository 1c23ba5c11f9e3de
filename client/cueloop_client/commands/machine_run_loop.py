"""`cueloop machine run loop`."""

from __future__ import annotations

from cueloop_client.run_attached import run_for_programs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_client.context import Context


def run(context: Context) -> int:
    """Task after task; the events and the summary on standard output."""
    return run_for_programs(context, "loop")

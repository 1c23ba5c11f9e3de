"""`cueloop run loop`."""

from __future__ import annotations

from cueloop_client.run_attached import run_for_people

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_client.context import Context


def run(context: Context) -> int:
    """Start the run and show it to its end, or as --detach and --dry-run say."""
    return run_for_people(context, "loop")

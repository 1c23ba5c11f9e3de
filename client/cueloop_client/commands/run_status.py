"""`cueloop run status`."""

from __future__ import annotations

from cueloop_client.run_active import meant_run
from cueloop_client.run_status_text import status_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_client.context import Context


def run(context: Context) -> int:
    """Show the run that is named, the active one, or the last one."""
    record = meant_run(context, or_last=True)
    if context.json:
        context.print_json({"run": record})
        return 0
    title, *lines = status_lines(record)
    context.print_title(title)
    context.print("\n".join(lines))
    return 0

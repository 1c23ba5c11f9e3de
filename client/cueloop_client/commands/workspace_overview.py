"""`cueloop machine workspace overview`."""

from __future__ import annotations

from cueloop_client.fast import read
from cueloop_client.shapes import member

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_client.context import Context


def run(context: Context) -> int:
    """Print the overview document alone; git is asked anew."""
    context.print_json(member(read(context, "workspace.overview", {"exact": True}), "document"))
    return 0

"""`cueloop machine config resolve`."""

from __future__ import annotations

from cueloop_client.fast import read
from cueloop_client.shapes import member

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_client.context import Context


def run(context: Context) -> int:
    """Print the config-resolve document alone; git is asked anew, so what it says of the tree is of this moment."""
    context.print_json(member(read(context, "config.resolve", {"exact": True}), "document"))
    return 0

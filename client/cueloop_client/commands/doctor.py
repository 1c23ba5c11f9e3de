"""`cueloop doctor`."""

from __future__ import annotations

from cueloop_client.doctor_ask import what_is_known
from cueloop_client.doctor_text import SECTIONS, title
from cueloop_client.failures import FAILED, OK
from cueloop_client.fast import examine_here
from cueloop_client.shapes import answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_client.context import Context


def run(context: Context) -> int:
    """Print what was found, for people or as the doctor document; exit code 1 where an error is among it. Starts no daemon."""
    root = context.root()
    document = answer(examine_here(context, root, what_is_known(context, root)))
    if context.json:
        context.print_json(document)
    else:
        context.print_title(title(document))
        for section in SECTIONS:
            lines = section(document)
            if lines:
                context.print("\n".join(["", *lines]))
    return OK if document["healthy"] is True else FAILED

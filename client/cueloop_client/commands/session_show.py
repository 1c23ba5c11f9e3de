"""`cueloop session show`."""

from __future__ import annotations

from cueloop_client.fast import read
from cueloop_client.session_text import headline, particulars
from cueloop_client.shapes import answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_client.context import Context


def run(context: Context) -> int:
    """Print what the session file is: for people, or with --json the whole answer. A damaged one is an answer, too."""
    found = answer(read(context, "session.get", {}))
    if context.json:
        context.print_json(found)
    else:
        context.print_title(headline(found))
        context.print(particulars(found))
    return 0

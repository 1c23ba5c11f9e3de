"""`cueloop session show`."""

from __future__ import annotations

import os

from cueloop_client.fast import read
from cueloop_client.reach import why_no_daemon
from cueloop_client.session_text import headline, particulars
from cueloop_client.shapes import answer, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_client.context import Context


def run(context: Context) -> int:
    """Print what the session file is: for people, or with --json the whole answer. A damaged one is an answer, too."""
    found = answer(read(context, "session.get", {}))
    if context.json:
        context.print_json(found)
        return 0
    context.print_title(headline(found))
    root = context.root()
    if text(found.get("state")) == "missing" and context.far is None and not os.path.lexists(root.join(".cueloop")):
        context.print("\n".join(why_no_daemon(root) or ()))
    else:
        context.print(particulars(found))
    return 0

"""`cueloop session clear`."""

from __future__ import annotations

from cueloop_client.failures import Failure, Usage
from cueloop_client.fast import change, read
from cueloop_client.session_text import headline, particulars
from cueloop_client.shapes import answer, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cueloop_client.context import Context


def run(context: Context) -> int:
    """Abandon the session whose etag was given, or that was shown and agreed to. No session: nothing to do, exit code 0."""
    etag = context.values.text("etag")
    if etag is None:
        found = answer(read(context, "session.get", {}))
        if text(found.get("state")) == "missing":
            return _tell(context, {"cleared": False}, "No interrupted session: nothing to clear.")
        etag = _agreed_etag(context, found)
        if etag is None:
            context.say("Left as it is.")
            return 1
    done = answer(change(context, "session.clear", {"etag": etag}))
    return _tell(context, {"cleared": True, **done}, f"The session is abandoned. Its file is now {text(done.get('history'))}")


def _agreed_etag(context: Context, found: dict[str, Any]) -> str | None:
    """The etag of what the person saw and wants to abandon; None if they do not. Raises Usage if nobody can be asked."""
    etag = found.get("etag")
    if not isinstance(etag, str):
        raise Failure("The session file cannot be read, so it is not touched.", text(found.get("detail")) or None)
    if context.values.has("yes"):
        return etag
    if not (context.world.is_terminal(0) and context.world.is_terminal(2)):
        raise Usage("Nobody can be asked here: say --yes, or --etag ETAG for the file that you saw.")
    context.say(f"{headline(found)}\n{particulars(found)}")
    context.world.write(2, b"\nAbandon it? [y/N] ")
    return etag if context.world.read_line().strip().lower() in ("y", "yes") else None


def _tell(context: Context, document: dict[str, Any], words: str) -> int:
    if context.json:
        context.print_json(document)
    else:
        context.print(words)
    return 0

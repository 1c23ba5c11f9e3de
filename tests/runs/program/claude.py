"""What Claude Code would print: streams as bytes, for agents that are only played."""

from __future__ import annotations

import json

from cueloop_daemon.runs.types import Exited, Order
from runs.fakes import Script

LOST = "No conversation found with session ID: "


def id_of(order: Order) -> tuple[str, bool]:
    """The conversation that the order names, and whether it is to be continued."""
    words = list(order.argv)
    if "--resume" in words:
        return words[words.index("--resume") + 1], True
    return words[words.index("--session-id") + 1], False


def lines(*documents: dict[str, object]) -> bytes:
    """One JSON document per line."""
    return b"".join(json.dumps(document).encode() + b"\n" for document in documents)


def begun(conversation: str) -> dict[str, object]:
    """The first line."""
    return {"type": "system", "subtype": "init", "session_id": conversation}


def succeeds(order: Order, text: str = "All is done.") -> Script:
    """An agent that does what it is told."""
    conversation, _ = id_of(order)
    said = {"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}, "session_id": conversation}
    result = {"type": "result", "subtype": "success", "is_error": False, "result": text, "session_id": conversation}
    return Script(lines(begun(conversation), said, result))


def fails(order: Order, text: str = "it went wrong", **more: object) -> Script:
    """An agent whose stream says that it failed; exit code 1."""
    result = {"type": "result", "subtype": "success", "is_error": True, "result": text, **more}
    return Script(lines(begun(id_of(order)[0]), result), b"", Exited(1, None, "self", 0, 0, 0))


def is_busy(order: Order) -> Script:
    """A passing fault of the server."""
    return fails(order, "API Error: 529 overloaded", api_error_status=529)


def is_gone(order: Order) -> Script:
    """The conversation that was asked for does not exist any more."""
    return Script(b"", (LOST + id_of(order)[0] + "\n").encode(), Exited(1, None, "self", 0, 0, 0))


def is_killed(order: Order, number: int = 9) -> Script:
    """Somebody's signal ends it in the middle."""
    return Script(lines(begun(id_of(order)[0])), b"", Exited(None, number, "self", 0, 0, 0))


def goes_idle(order: Order) -> Script:
    """It says nothing for so long that it is ended."""
    return Script(lines(begun(id_of(order)[0])), b"", Exited(None, 15, "idle", 0, 0, 0))


def hangs(order: Order) -> Script:
    """It runs until somebody ends it."""
    return Script(lines(begun(id_of(order)[0])), b"", None)

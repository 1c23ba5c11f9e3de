"""Looking into answers without their models, which the warm path does not load. Standard library only."""

from __future__ import annotations

from cueloop_client.failures import BadAnswer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def member(value: object, name: str) -> dict[str, Any]:
    """The object under `name` in an answer. Raises BadAnswer if it is not there."""
    found = value.get(name) if isinstance(value, dict) else None
    if not isinstance(found, dict):
        raise BadAnswer(f"The daemon's answer has no {name!r}: it may be of another version.", "Try: cueloop daemon restart")
    return found


def answer(value: object) -> dict[str, Any]:
    """An answer that is an object. Raises BadAnswer."""
    if not isinstance(value, dict):
        raise BadAnswer("The daemon's answer is not an object: it may be of another version.", "Try: cueloop daemon restart")
    return value


def text(value: object, default: str = "") -> str:
    """The value if it is text."""
    return value if isinstance(value, str) else default


def count(value: object, default: int = 0) -> int:
    """The value if it is a number."""
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def members(value: object) -> Mapping[str, Any]:
    """The value if it is an object, else one without members."""
    return value if isinstance(value, dict) else {}


def objects(value: object) -> list[Mapping[str, Any]]:
    """The objects in the value if it is a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []

"""Ids of runners' sessions: what is valid, and those we choose ourselves."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable

LONGEST = 512

Shape = Callable[[str], bool]

_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_OURS = re.compile(r"\S+-p[0-3]-\d+(?:-\d+)?")


def is_id(text: str) -> bool:
    """Non-empty, at most 512 bytes, no blanks or control characters; and nothing that a command line takes for an option."""
    if not text or text.startswith("-") or len(text) > LONGEST:
        return False
    if any(char.isspace() or not char.isprintable() for char in text):
        return False
    return len(text.encode()) <= LONGEST


def is_uuid(text: str) -> bool:
    """A UUID as its owner printed it."""
    return is_id(text) and _UUID.fullmatch(text) is not None


def is_ours(text: str) -> bool:
    """An id of the form that `own_id` makes."""
    return is_id(text) and _OURS.fullmatch(text) is not None


def starts_with(*prefixes: str) -> Shape:
    """Ids of a runner that marks its own."""

    def shape(text: str) -> bool:
        return is_id(text) and any(text.startswith(prefix) and len(text) > len(prefix) for prefix in prefixes)

    return shape


def is_token(text: str) -> bool:
    """Any id that is no path."""
    return is_id(text) and "/" not in text and text not in (".", "..")


def own_id(task_id: str, phase: int, seconds: int, again: int = 0) -> str | None:
    """`{task_id}-p{phase}-{unix seconds}`, phase 0 for a run of a single phase; None if the task's id makes no valid one.

    `again` counts fresh starts of the same phase after the first: most runners refuse to create an id twice.
    """
    text = f"{task_id.strip()}-p{phase}-{seconds}" + (f"-{again}" if again else "")
    return text if is_token(text) else None


def own_uuid(task_id: str, phase: int, seconds: int, again: int = 0) -> str:
    """The same as a UUID (version 5, in the namespace of URLs), for runners that take nothing else."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{task_id.strip()}-p{phase}-{seconds}" + (f"-{again}" if again else "")))

"""The end of the log, as values, and what was written on SIGUSR1. Blocking."""

from __future__ import annotations

import os

from pydantic import JsonValue
from pydantic_core import from_json

MOST_BYTES = 256 * 1024
MOST_LINES = 400


def recent_log(path: str) -> tuple[list[dict[str, JsonValue]], list[str]]:
    """The last lines of the log and the file before it, oldest first, and what could not be told. Never raises."""
    data, notes = b"", []
    for piece in (path, f"{path}.1"):
        if len(data) >= MOST_BYTES:
            break
        try:
            data = end_of(piece, MOST_BYTES - len(data)) + data
        except FileNotFoundError:
            break
        except OSError as exc:
            notes.append(f"The log cannot be read: {exc.strerror}.")
            break
    lines = data.splitlines()[-MOST_LINES:]
    found = [line for line in map(_parsed, lines) if line is not None]
    if len(found) < len(lines):
        notes.append(f"{len(lines) - len(found)} lines of the log are no lines of ours and are left out.")
    return found, notes


def stacks_text(path: str) -> str | None:
    """What stands in the file of stacks; None if nothing does. Never raises."""
    try:
        return end_of(path, MOST_BYTES // 2).decode("utf-8", "replace") or None
    except OSError:
        return None


def end_of(path: str, most: int) -> bytes:
    """The last bytes of a regular file; never waits for a FIFO. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        return os.pread(fd, most, max(0, size - most))
    finally:
        os.close(fd)


def _parsed(line: bytes) -> dict[str, JsonValue] | None:
    try:
        value = from_json(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) and isinstance(value.get("event"), str) else None

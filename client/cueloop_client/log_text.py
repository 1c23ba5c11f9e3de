"""A line of the daemon's log in words for people. Standard library only."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

OWN = ("time", "level", "logger", "event", "traceback")


def readable(lines: bytes) -> str:
    """The lines as text: `2026-02-07 12:03:04 info event key=value`, local time, a traceback below; others as they are."""
    return "".join(f"{_line(line)}\n" for line in lines.splitlines())


def _line(line: bytes) -> str:
    try:
        value: object = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or not isinstance(value.get("event"), str):
        return line.decode("utf-8", "replace")
    words = [_local(value.get("time")), str(value.get("level", "")), value["event"]]
    words += [f"{name}={_value(found)}" for name, found in value.items() if name not in OWN]
    traceback = value.get("traceback")
    below = [f"    {text}" for text in traceback.splitlines()] if isinstance(traceback, str) else []
    return "\n".join([" ".join(word for word in words if word), *below])


def _value(found: Any) -> str:
    text = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
    return json.dumps(text, ensure_ascii=False) if not text.isprintable() else text


def _local(time: object) -> str:
    from datetime import datetime

    try:
        return f"{datetime.fromisoformat(str(time)).astimezone():%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError):
        return str(time or "")

"""A line of output → the event it is, if it is one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from cueloop_daemon.runners.lines import Line
from cueloop_daemon.runners.members import MemberScanner


class Doc:
    """A JSON object of unknown shape. Every access says what kind is wanted, and gives an empty one for anything else."""

    def __init__(self, value: object = None) -> None:
        self._value: Mapping[str, object] = value if isinstance(value, Mapping) else {}

    def __contains__(self, key: str) -> bool:
        return key in self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    def doc(self, *keys: str) -> Doc:
        """The object at a path."""
        found: object = self._value
        for key in keys:
            found = found.get(key) if isinstance(found, dict) else None
        return Doc(found)

    def docs(self, key: str) -> Iterator[Doc]:
        """The objects in a list."""
        found = self._value.get(key)
        return (Doc(item) for item in found if isinstance(item, dict)) if isinstance(found, list) else iter(())

    def text(self, key: str) -> str:
        """A text; "" for anything else."""
        found = self._value.get(key)
        return found if isinstance(found, str) else ""

    def texts(self, key: str) -> list[str]:
        """The texts in a list, or the one text."""
        found = self._value.get(key)
        items = found if isinstance(found, list) else [found]
        return [item for item in items if isinstance(item, str)]

    def number(self, key: str) -> int | None:
        """A whole number; a text or a boolean is none."""
        found = self._value.get(key)
        return found if isinstance(found, int) and not isinstance(found, bool) else None

    def is_true(self, key: str) -> bool:
        """Exactly `true`."""
        return self._value.get(key) is True


def event_of(line: Line) -> Doc | None:
    """The object that a line holds; None: it is text.

    Of an object that is too long or nested too deeply only the short outermost members are there, so that a last word is
    recognised whatever it carries. One that was cut off is text: a half line decides nothing.
    """
    head = line.head.removeprefix(b"\xef\xbb\xbf").strip()
    if not head.startswith(b"{"):
        return None
    if line.left_out:
        return Doc(line.members) if line.members else None
    try:
        return Doc(json.loads(head.decode("utf-8", "replace")))
    except RecursionError:
        scanner = MemberScanner()
        scanner.feed(head)
        return Doc(scanner.found) if scanner.is_whole and scanner.found else None
    except ValueError:
        return None

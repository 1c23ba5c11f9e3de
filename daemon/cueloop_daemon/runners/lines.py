"""Bytes → lines, whatever comes: half lines, lines of any length, no line feed at all. Memory is bounded."""

from __future__ import annotations

from dataclasses import dataclass

LONGEST = 1024 * 1024
"""A line up to here is kept whole. A megabyte of JSON is parsed in some 15 ms; nothing that decides a run is longer by nature."""
KEPT_HEAD = 64 * 1024
KEPT_TAIL = 4 * 1024


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its end. Of a line over `LONGEST` only the head and the tail; `left_out` counts the bytes between."""

    head: bytes
    tail: bytes = b""
    left_out: int = 0
    is_ended: bool = True
    """A line feed came; False for what stood last without one."""


class LineSplitter:
    """Incremental; any cut of the bytes gives the same lines."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._tail = b""
        self._is_long = False

    def feed(self, data: bytes) -> list[Line]:
        """The lines that `data` completes."""
        lines: list[Line] = []
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._add(data[start:end])
            lines.append(self._take(is_ended=True))
            start = end + 1
        self._add(data[start:])
        return lines

    def end(self) -> Line | None:
        """What stood last without a line feed, if anything did."""
        return self._take(is_ended=False) if self._size else None

    def _add(self, part: bytes) -> None:
        if not part:
            return
        self._size += len(part)
        if self._is_long:
            self._tail = (self._tail + part)[-KEPT_TAIL:]
            return
        self._parts.append(part)
        if self._size > LONGEST:
            whole = b"".join(self._parts)
            self._parts, self._tail, self._is_long = [whole[:KEPT_HEAD]], whole[-KEPT_TAIL:], True

    def _take(self, *, is_ended: bool) -> Line:
        head = b"".join(self._parts)
        line = Line(head.removesuffix(b"\r"), is_ended=is_ended)
        if self._is_long:
            line = Line(head, self._tail.removesuffix(b"\r"), self._size - KEPT_HEAD - KEPT_TAIL, is_ended)
        self._parts, self._size, self._tail, self._is_long = [], 0, b"", False
        return line

"""Bytes → lines, whatever comes: half lines, lines of any length, no line feed at all. Memory is bounded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from cueloop_daemon.runners.members import MemberScanner
from cueloop_protocol.values import dataclass

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
    members: Mapping[str, object] = field(default_factory=dict)
    """Of a line over `LONGEST` that is one whole JSON object: its outermost members with short, plain values."""
    is_ended: bool = True
    """A line feed came; False for what stood last without one."""

    @property
    def size(self) -> int:
        """Bytes of the whole line."""
        return len(self.head) + len(self.tail) + self.left_out


class LineSplitter:
    """Incremental; any cut of the bytes gives the same lines."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._tail = b""
        self._scanner: MemberScanner | None = None
        """There while the line is over the limit."""

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
        if self._scanner is not None:
            self._tail = (self._tail + part[-KEPT_TAIL:])[-KEPT_TAIL:]
            self._scanner.feed(part)
            return
        self._parts.append(part)
        if self._size > LONGEST:
            whole = b"".join(self._parts)
            self._parts, self._tail, self._scanner = [whole[:KEPT_HEAD]], whole[-KEPT_TAIL:], MemberScanner()
            self._scanner.feed(whole)

    def _take(self, *, is_ended: bool) -> Line:
        head = b"".join(self._parts)
        line = Line(head.removesuffix(b"\r"), is_ended=is_ended)
        if (scanner := self._scanner) is not None:
            left_out = self._size - KEPT_HEAD - KEPT_TAIL
            line = Line(head, self._tail.removesuffix(b"\r"), left_out, scanner.found if scanner.is_whole else {}, is_ended)
        self._parts, self._size, self._tail, self._scanner = [], 0, b"", None
        return line

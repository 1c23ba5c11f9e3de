"""The outermost members of a JSON object that is too long, or nested too deeply, to be parsed. Incremental, memory bounded."""

from __future__ import annotations

import json
import re

_LONGEST = 1024
"""Bytes of a member that is kept; longer ones decide nothing."""
_BUDGET = 500_000
"""Steps spent on one object: half a second of hostile input, after which nothing more is read from it."""
_OUTSIDE = re.compile(rb'[^"{}\[\],]*')
_TEXT = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_WITHIN = re.compile(rb'[^"{}\[\]]*')


class MemberScanner:
    """Feeds on the object's bytes, cut anywhere. Members that hold objects, lists or long texts are passed over."""

    def __init__(self) -> None:
        self.found: dict[str, object] = {}
        self._depth = 0
        self._in_text = False
        self._is_escaped = False
        self._member = bytearray()
        self._is_dropped = False
        self._steps = 0

    @property
    def is_whole(self) -> bool:
        """The object's last brace has come."""
        return self._depth == 0 and self._steps > 0 and not self._in_text

    def feed(self, data: bytes) -> None:
        """The next bytes."""
        at = 0
        while at < len(data) and self._steps < _BUDGET:
            self._steps += 1
            at = self._text(data, at) if self._in_text else self._structure(data, at)

    def _text(self, data: bytes, at: int) -> int:
        if self._is_escaped:
            self._keep(data[at : at + 1])
            self._is_escaped = False
            return at + 1
        match = _TEXT.match(data, at)
        stop = match.end() if match else at
        self._keep(data[at : stop + 1])
        self._is_escaped = data[stop : stop + 1] == b"\\"  # the last byte; what it escapes comes with the next bytes
        self._in_text = self._is_escaped or stop == len(data)
        return stop + 1

    def _structure(self, data: bytes, at: int) -> int:
        match = (_OUTSIDE if self._depth == 1 else _WITHIN).match(data, at)
        stop = match.end() if match else at
        self._keep(data[at:stop])
        char = data[stop : stop + 1]
        if char == b'"':
            self._keep(char)
            self._in_text = True
        elif char in (b"{", b"["):
            self._is_dropped = self._is_dropped or self._depth == 1
            self._depth += 1
        elif char in (b"}", b"]"):
            self._depth -= 1
            if self._depth == 0:
                self._take()
        elif char:
            self._take()
        return stop + 1

    def _keep(self, part: bytes) -> None:
        if self._depth != 1 or self._is_dropped:
            return
        if len(self._member) + len(part) > _LONGEST:
            self._is_dropped = True
        else:
            self._member += part

    def _take(self) -> None:
        member, is_dropped = bytes(self._member), self._is_dropped
        self._member.clear()
        self._is_dropped = False
        if is_dropped:
            return
        try:
            self.found |= json.loads(b"{" + member + b"}")
        except ValueError:  # not a member: the object is none, and its line will not be one either
            return

"""Text from agents, made fit to be shown and kept: bounded, without what no terminal or JSON peer should get."""

from __future__ import annotations

import re
from collections.abc import Iterable

PIECE = 256 * 1024
"""Characters of one piece: four times that, escaped, still fit an event (contract section 7)."""
KEPT = 256 * 1024
"""Characters kept of an agent's last message."""
ENDS = 64 * 1024
"""Bytes kept of the beginning, and of the end, of standard error."""


_UNFIT = re.compile("[\0\ud800-\udfff]")
_STYLE = re.compile("\x1b\\[[0-9;:]*m")


def clean(text: str) -> str:
    """Without NUL and lone surrogates, which become U+FFFD."""
    return text if text.isascii() and "\0" not in text else _UNFIT.sub("�", text)


def unstyled(text: str) -> str:
    """Without the colours and weights of a terminal."""
    return _STYLE.sub("", text)


def shorten(text: str, limit: int) -> str:
    """The text, or both its ends with a mark between them that says how much is missing."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[len(text) - half :]}"


def pieces(texts: Iterable[str]) -> list[str]:
    """Small texts joined, large ones cut, so that each fits an event."""
    whole = "".join(texts)
    return [whole[at : at + PIECE] for at in range(0, len(whole), PIECE)]


class Growing:
    """A text that grows; head and tail are kept beyond `KEPT`. What is kept does not depend on how it was cut."""

    def __init__(self) -> None:
        self._head = ""
        self._tail = ""
        self._size = 0
        self.byte_size = 0
        """Of the whole text in UTF-8."""

    def add(self, text: str) -> None:
        """Append."""
        self._size += len(text)
        self.byte_size += len(text.encode())
        room = KEPT // 2 - len(self._head)
        self._head += text[:room]
        rest = text[room:]
        if rest:
            self._tail = (self._tail + rest)[-(KEPT // 2) :]

    def __str__(self) -> str:
        left_out = self._size - len(self._head) - len(self._tail)
        return self._head + (f"\n[{left_out} characters left out]\n" if left_out else "") + self._tail


class Ends:
    """The beginning and the end of a stream of bytes."""

    def __init__(self) -> None:
        self._head = b""
        self._tail = b""
        self._size = 0

    def add(self, data: bytes) -> None:
        """Append."""
        self._size += len(data)
        room = ENDS - len(self._head)
        if room:
            self._head += data[:room]
        self._tail = (self._tail + data[-ENDS:])[-ENDS:]

    @property
    def text(self) -> str:
        """Both ends; all of it while it is no longer than that."""
        if self._size <= ENDS:
            return clean(self._head.decode("utf-8", "replace"))
        tail = self._tail[-min(ENDS, self._size - len(self._head)) :]
        return clean((self._head + b"\n" + tail if self._size > 2 * ENDS else self._head + tail).decode("utf-8", "replace"))

    def tail(self, characters: int) -> str:
        """The last so many characters, from the beginning of a line where possible."""
        text = clean(self._tail.decode("utf-8", "replace")).strip()
        if len(text) <= characters:
            return text
        cut = text[-characters:]
        return cut.partition("\n")[2] or cut

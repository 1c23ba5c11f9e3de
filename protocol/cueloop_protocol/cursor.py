"""A place in the event log: `epoch:seq`. Standard library only.

A cursor is exclusive: the next event is the one after it. It means something only within its epoch, so cursors have no order.
"""

from __future__ import annotations

MAX_SEQ = 2**63 - 1
"""The largest row number that SQLite has."""

_EPOCH_CHARACTERS = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_")
_MAX_EPOCH = 64


class CursorError(ValueError):
    """The text is no cursor; the message says why in one sentence and is fit for the person who typed it."""


class Cursor:
    """An epoch and the `seq` of the last event seen in it (0: none yet). Immutable. CursorError if either is impossible."""

    __slots__ = ("epoch", "seq")

    epoch: str
    seq: int

    def __init__(self, epoch: str, seq: int) -> None:
        if not 0 < len(epoch) <= _MAX_EPOCH or not _EPOCH_CHARACTERS.issuperset(epoch):
            raise CursorError(f"the epoch of a cursor is 1 to {_MAX_EPOCH} letters, digits, '-' or '_'")
        if type(seq) is not int or not 0 <= seq <= MAX_SEQ:
            raise CursorError(f"the number of a cursor is an integer from 0 to {MAX_SEQ}")
        object.__setattr__(self, "epoch", epoch)
        object.__setattr__(self, "seq", seq)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a cursor does not change: {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a cursor does not change: {name}")

    def __reduce__(self) -> tuple[type[Cursor], tuple[str, int]]:
        return Cursor, (self.epoch, self.seq)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cursor) and (self.epoch, self.seq) == (other.epoch, other.seq)

    def __hash__(self) -> int:
        return hash((self.epoch, self.seq))

    def __str__(self) -> str:
        return f"{self.epoch}:{self.seq}"

    def __repr__(self) -> str:
        return f"Cursor({self.epoch!r}, {self.seq})"

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Read `epoch:seq`, as `str` writes it and no other way: no sign, no leading zeros, no blanks. CursorError otherwise."""
        epoch, colon, number = text.partition(":")
        if not colon:
            raise CursorError("a cursor is written epoch:number, with one colon")
        if not (number.isascii() and number.isdigit()) or (number[0] == "0" and number != "0") or len(number) > len(str(MAX_SEQ)):
            raise CursorError("after the colon of a cursor stands a plain decimal number")
        return cls(epoch, int(number))

"""What became of an order. Standard library only."""

from __future__ import annotations

from cueloop_daemon.shim.wire import encode

EXIT_FIELDS = ("code", "signal", "cause", "out", "err", "dropped")
"""The fields of an end that are put on record."""


class Entry:
    """The word and the fields of an order's answer; a start in between has the word `starting`. `token` is a start's."""

    def __init__(self, word: str, token: str | None = None, **fields: object) -> None:
        self.word = word
        self.token = token
        self.fields = fields

    def answer(self, n: int) -> bytes:
        """What a `start` of this number is answered."""
        return encode(self.word, to="start", n=n, **self.fields)

    def records(self, n: int) -> list[bytes]:
        """What a record must say of the order, once it is over."""
        told = self.fields
        if self.word == "exited":
            child = encode("child", n=n, pid=told["pid"], start=told["start"])
            return [child, encode("exit", n=n, **{name: told[name] for name in EXIT_FIELDS})]
        if self.word == "failed":
            return [encode("failed", n=n, **told)]
        return [encode("bar", n=n)] if self.word == "barred" else []

"""What the hub needs of a connection: bytes taken at once or not at all."""

from __future__ import annotations

from typing import Protocol


class SinkClosed(Exception):
    """The connection behind a sink is gone, by either side; nothing more will be taken."""


class Sink(Protocol):
    """The writing half of one connection. Every write of the connection goes through it, so that order is kept.

    All methods are called from the event loop's thread. The server's writer is one; tests use fakes and bare sockets.
    """

    @property
    def closed(self) -> bool:
        """True from the moment the connection cannot be written any more. Never becomes false again."""
        ...

    def frame(self, body: bytes) -> bytes:
        """`body` (one JSON text without line feeds) in the framing that this connection speaks.

        Puts bytes before and after it that depend on its length alone: connections that frame `{}` alike frame all alike.
        """
        ...

    def offer(self, frame: bytes) -> bool:
        """Take a whole frame, without waiting.

        True: taken; what the socket did not accept at once is kept by the sink and sent first.
        False: not taken, no byte of it was sent. The sink is congested, or closed. Never raises for a lost peer.
        """
        ...

    async def drained(self) -> None:
        """Return when a frame can be offered again (at once, if it can be now). Raises `SinkClosed` when the connection is gone.

        Several tasks may wait at the same time.
        """
        ...

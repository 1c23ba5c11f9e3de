"""The one way into a connection: the bytes of its socket, as they come, and only when somebody asks for them."""

from __future__ import annotations

import asyncio
import logging
import socket

import anyio
import anyio.lowlevel

from cueloop_daemon.server.parting import CHUNK

log = logging.getLogger(__name__)


class Receiver:
    """What a socket sends. For one reader at a time.

    On asyncio the socket stays registered with the loop from one call to the next: to take it out and put it in again for each request,
    as `anyio.wait_readable` does, is a fifth of a preview's cost. What comes while nobody asks stays with the system, and ends the
    registration until somebody does.
    """

    def __init__(self, sock: socket.socket, peer: int) -> None:
        """`sock` is non-blocking and stays open until `close`; `peer` is its number in the log."""
        self._sock = sock
        self._peer = peer
        self._has_more = False  # the last read filled its buffer
        self._loop = _asyncio_loop()
        self._is_registered = False
        self._waiter: asyncio.Future[None] | None = None
        self._data: bytes | None = None  # was read for a waiter, and not taken yet

    async def receive(self) -> bytes:
        """Some bytes; none at the end, whichever way it came. Always lets others have their turn.

        Nothing is lost when it is cancelled: the next call gives it. Reads first only where more is known to wait: a vain read costs.
        """
        if self._has_more:
            await anyio.lowlevel.checkpoint()
            if (data := self._read()) is not None:
                return data
        while True:
            if (data := await self._readable() if self._loop is None else await self._registered(self._loop)) is not None:
                return data

    def close(self) -> None:
        """The socket is for others to read, or to be closed."""
        self._unregister()
        self._loop = None

    async def _readable(self) -> bytes | None:
        await anyio.wait_readable(self._sock)
        return self._read()

    async def _registered(self, loop: asyncio.AbstractEventLoop) -> bytes | None:
        if self._data is None:
            if not self._is_registered:
                loop.add_reader(self._sock, self._came)
                self._is_registered = True
            self._waiter = loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        else:
            await anyio.lowlevel.checkpoint()
        data, self._data = self._data, None
        return data

    def _came(self) -> None:
        """There is something to read. It is read here, as the loop would call again before the reader has its turn."""
        waiter = self._waiter
        if waiter is None or waiter.done():
            self._unregister()
        elif (data := self._read()) is not None:
            self._data = data
            waiter.set_result(None)

    def _unregister(self) -> None:
        if self._is_registered and self._loop is not None:
            self._is_registered = False
            self._loop.remove_reader(self._sock)

    def _read(self) -> bytes | None:
        """Some bytes, none at the end; None where there is nothing to read now."""
        try:
            data = self._sock.recv(CHUNK)
        except (BlockingIOError, InterruptedError):
            self._has_more = False
            return None
        except OSError as error:
            log.debug("connection_lost peer=%d error=%s", self._peer, error.strerror)
            return b""
        self._has_more = len(data) == CHUNK
        return data


def _asyncio_loop() -> asyncio.AbstractEventLoop | None:
    """The loop, if it is asyncio's; trio, in tests, has none."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None

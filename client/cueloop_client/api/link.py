"""One connection to the daemon: whole messages in and out."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from threading import Lock
from typing import Any

import anyio
import anyio.abc
import anyio.to_thread

from cueloop_client.exchange import ANSWER_LIMIT, CHUNK, read_json
from cueloop_client.failures import BadAnswer, Lost, NoDaemon, Unsent
from cueloop_client.launch import START_SECONDS, launch
from cueloop_client.reach import reach_or_upgrade
from cueloop_client.world import World
from cueloop_protocol.roots import Root

SEND_SECONDS = 2.0
"""A request is some hundred bytes; a daemon that does not take them in this time does not read at all."""


class Link:
    """A connection. One task at a time may receive; a receive that is cancelled loses nothing."""

    def __init__(self, stream: anyio.abc.ByteStream) -> None:
        self._stream = stream
        self._buffer = bytearray()
        self._scanned = 0
        self._sending = anyio.Lock()
        self.is_open = True

    async def send(self, message: Mapping[str, Any]) -> None:
        """Send one message, whole or not at all as far as later ones are concerned: cut short, the link closes. Raises Unsent."""
        frame = json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"
        async with self._sending:
            sent = False
            # A frame that a cancellation cut in two would spoil every message after it.
            with anyio.CancelScope(shield=True), anyio.move_on_after(SEND_SECONDS):
                try:
                    await self._stream.send(frame)
                    sent = True
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    pass
        if not sent:
            await self.aclose()
            raise Unsent("The daemon did not take the request: the connection is closed.")

    async def receive(self) -> dict[str, Any]:
        """The next message. Raises Lost at the end of the connection, and BadAnswer, after which the link is closed."""
        try:
            return read_json(await self._line())
        except BadAnswer:
            await self.aclose()
            raise

    async def _line(self) -> bytes:
        while (end := self._buffer.find(b"\n", self._scanned)) < 0:
            self._scanned = len(self._buffer)
            if self._scanned > ANSWER_LIMIT:
                raise BadAnswer(f"The daemon's message is over {ANSWER_LIMIT} bytes.")
            try:
                self._buffer += await self._stream.receive(CHUNK)
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError) as exc:
                await self.aclose()
                raise Lost("The connection to the daemon ended.") from exc
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._scanned = 0
        return line

    async def aclose(self) -> None:
        """Close the connection; again is nothing."""
        self.is_open = False
        with anyio.CancelScope(shield=True):
            await self._stream.aclose()


class Opener:
    """Makes connections to one repository's daemon, and starts it where that is allowed and wanted."""

    def __init__(self, root: Root, world: World, *, may_start: bool, seconds: float) -> None:
        self.root = root
        self.world = world
        self.may_start = may_start
        self.seconds = seconds

    async def open(self, *, start: bool = True) -> Link:
        """A new connection. Raises NoDaemon if none runs and none may be started (`start`: now), and what `launch` does."""
        box = Box()
        try:
            sock = await anyio.to_thread.run_sync(
                lambda: box.keep(self._connect(start and self.may_start)), abandon_on_cancel=True
            )
        except BaseException:
            box.abandon()
            raise
        if sock is None:
            raise NoDaemon("No daemon runs for this repository.", "Start it: cueloop daemon start")
        try:
            return Link(await anyio.abc.UNIXSocketStream.from_socket(sock))
        except BaseException:
            sock.close()
            raise

    def _connect(self, start: bool) -> socket.socket | None:
        to_start = self.world.deadline(max(START_SECONDS, self.seconds))
        sock = reach_or_upgrade(self.root, self.world, self.world.deadline(self.seconds), lambda: to_start, may_start=start)
        if sock is None and start:
            sock = launch(self.root, self.world, to_start)
        if sock is not None:
            sock.setblocking(False)
        return sock


class Box:
    """Between a thread that makes a socket and a task that may no longer want it: one of them closes it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._sock: socket.socket | None = None
        self._abandoned = False

    def keep(self, sock: socket.socket | None) -> socket.socket | None:
        """What the thread made, unless the task has gone: then it is closed, and None."""
        with self._lock:
            if self._abandoned and sock is not None:
                sock.close()
                return None
            self._sock = sock
            return sock

    def abandon(self) -> None:
        """The task goes: what came or comes is closed."""
        with self._lock:
            self._abandoned = True
            if self._sock is not None:
                self._sock.close()

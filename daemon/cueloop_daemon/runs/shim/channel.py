"""One connection to a shim: lines out, messages in. Whether the other end is the run's shim is settled before it is given out."""

from __future__ import annotations

import os
from collections import deque

import anyio
import anyio.to_thread
from anyio.abc import SocketAttribute, SocketStream

from cueloop_daemon.runs.shim.folder import Folder, ShimPlace
from cueloop_daemon.runs.shim.news import Message, Refused, State, parse
from cueloop_daemon.shim.wire import PROTOCOL, Lines, WireError, encode
from cueloop_protocol.identity import is_same_process, peer_uid
from cueloop_protocol.place import PlaceError, check_private_folder

GREETING = 5.0
"""Seconds for connecting and being greeted."""


class NoShim(Exception):
    """Nobody there who could be talked to; `str()` says why."""


class Turned(Exception):
    """The shim does not talk to us; `why` as in `Refused`."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Channel:
    """A connection that was greeted. `state` is what the shim said then."""

    def __init__(self, stream: SocketStream, state: State, lines: Lines, waiting: deque[Message]) -> None:
        self.state = state
        self._stream = stream
        self._lines = lines
        self._waiting = waiting

    async def send(self, data: bytes) -> None:
        """Send whole lines; one caller at a time. Raises the errors of anyio's streams."""
        await self._stream.send(data)

    async def receive(self) -> Message:
        """The next message. Raises the errors of anyio's streams, and WireError."""
        while not self._waiting:
            self._waiting.extend(parse(line) for line in self._lines.feed(await self._stream.receive()))
        return self._waiting.popleft()

    async def close(self) -> None:
        """End the connection; nothing is waited for."""
        await anyio.aclose_forcefully(self._stream)


async def find_channel(folder: Folder, generation: int) -> Channel:
    """Connect to the run's shim and be greeted. Raises NoShim, Turned where the shim lives and refuses, and OSError."""
    place = await anyio.to_thread.run_sync(folder.shim)
    if place is None:
        raise NoShim("it has not said where it listens")
    return await open_channel(place, folder.run_id, generation, folder.uid)


async def open_channel(place: ShimPlace, run_id: str, generation: int, uid: int) -> Channel:
    """Connect to this one and be greeted. Raises NoShim and Turned."""
    if not is_same_process(place.pid, place.start, place.boot):
        raise NoShim(f"process {place.pid} is not the shim any more")
    try:
        check_private_folder(os.path.dirname(place.socket), uid)
        with anyio.fail_after(GREETING):
            stream = await anyio.connect_unix(place.socket)
            try:
                return await _greet(stream, run_id, generation, uid)
            except BaseException:
                await anyio.aclose_forcefully(stream)
                raise
    except (OSError, PlaceError, WireError, TimeoutError, anyio.EndOfStream, anyio.BrokenResourceError) as exc:
        raise NoShim(str(exc) or type(exc).__name__) from exc


async def _greet(stream: SocketStream, run_id: str, generation: int, uid: int) -> Channel:
    if peer_uid(stream.extra(SocketAttribute.raw_socket)) != uid:
        raise NoShim("another user listens there")
    await stream.send(encode("hello", generation=generation, protocols=[1, PROTOCOL], run_id=run_id))
    lines, waiting = Lines(), deque[Message]()
    while not waiting:
        waiting.extend(parse(line) for line in lines.feed(await stream.receive()))
    first = waiting.popleft()
    if isinstance(first, Refused):
        raise Turned(first.why)
    if not isinstance(first, State):
        raise WireError("no greeting")
    return Channel(stream, first, lines, waiting)

"""The one way out of a connection. What is written leaves in the order in which it was written, whole.

Everything is tried on the non-blocking socket at once; only what the socket does not take is kept, and only then is there a task,
which waits for the socket and ends when nothing is kept.
"""

from __future__ import annotations

import logging
import socket
from collections import deque

import anyio
from anyio.abc import TaskGroup

from cueloop_daemon.events.sink import SinkClosed
from cueloop_protocol.framing import Kind, encode

log = logging.getLogger(__name__)


class Writer:
    """Answers (`send`) are always taken and bounded by their makers, who look at `is_congested` first and wait for `room`.

    Events (`offer`) are taken only when nothing is kept, so that a slow subscriber costs one partly sent frame.
    """

    def __init__(self, sock: socket.socket, max_queued: int) -> None:
        """`sock` is non-blocking, and stays open until the group given to `start` has ended."""
        self._sock = sock
        self._tasks: TaskGroup | None = None
        self._max_queued = max_queued
        self._kept: deque[memoryview] = deque()
        self._kept_bytes = 0
        self._is_flushing = False
        self._changed = anyio.Event()
        self._holds = 0
        self.kind: Kind | None = None
        """How the peer frames; None until it has spoken."""
        self.closed = False

    def start(self, tasks: TaskGroup) -> None:
        """The group for the flushing task. What was written before this is sent then, if not at once."""
        self._tasks = tasks
        if self._is_flushing:
            tasks.start_soon(self._flush, name="flush")

    @property
    def is_congested(self) -> bool:
        """Whether more is kept than one connection may have waiting."""
        return self._kept_bytes > self._max_queued

    @property
    def queued(self) -> int:
        """Bytes kept."""
        return self._kept_bytes

    def frame(self, body: bytes) -> bytes:
        """The JSON text `body` in the peer's framing."""
        return encode(body, self.kind)

    def send(self, body: bytes) -> None:
        """Write one JSON text; dropped if the connection is gone."""
        frame = self.frame(body)
        if self.closed:
            return
        sent = 0 if self._is_flushing else self._try(frame)
        if sent < len(frame) and not self.closed:
            self._keep(memoryview(frame)[sent:])

    def offer(self, frame: bytes) -> bool:
        """Write one frame if the way is free: True if it was taken, whole or with its rest kept; False if nothing of it was."""
        if self._is_flushing or self._holds or self.closed:
            return False
        try:
            sent = self._sock.send(frame)  # not by `_try`: of a thousand calls for one event, each counts
        except OSError:
            sent = self._try(frame)
        if sent == len(frame):
            return True
        if self.closed:
            return False
        if sent:
            self._keep(memoryview(frame)[sent:])
        else:
            self._flush_later()
        return sent > 0

    async def drained(self) -> None:
        """Return when a frame can be offered. Raises SinkClosed when the connection is gone."""
        while self._is_flushing or self._holds or self.closed:
            if self.closed:
                raise SinkClosed
            await self._changed.wait()

    async def room(self) -> None:
        """Return when the next answer may be made: the connection is not congested, or gone."""
        while self.is_congested and not self.closed:
            await self._changed.wait()

    async def flushed(self) -> None:
        """Return when nothing is kept, or the connection is gone."""
        while self._kept and not self.closed:
            await self._changed.wait()

    def hold(self) -> None:
        """Take no events until as many `release` as `hold` were called: an answer is due first."""
        self._holds += 1

    def release(self) -> None:
        """Undo one `hold`."""
        self._holds -= 1
        self._wake()

    def close(self) -> None:
        """Nothing is sent any more; whoever waits is woken. The socket is closed by its owner."""
        self.closed = True
        self._kept.clear()
        self._kept_bytes = 0
        self._wake()

    def _try(self, data: bytes | memoryview) -> int:
        """Bytes that the socket took: 0 when it takes none now, and when it is broken, which `closed` then tells."""
        try:
            return self._sock.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            log.debug("connection_lost error=%s", error.strerror)
            self.close()
            return 0

    def _keep(self, rest: memoryview) -> None:
        self._kept.append(rest)
        self._kept_bytes += len(rest)
        self._flush_later()

    def _flush_later(self) -> None:
        if not self._is_flushing:
            self._is_flushing = True
            if self._tasks is not None:
                self._tasks.start_soon(self._flush, name="flush")

    async def _flush(self) -> None:
        """Wait for the socket and send, until nothing is kept. Whatever it takes in one go is sent in one go."""
        try:
            await anyio.wait_writable(self._sock)
            while self._kept and not self.closed:
                self._send_kept()
                self._wake()
                if self._kept:
                    await anyio.wait_writable(self._sock)
        finally:
            self._is_flushing = False
            self._wake()

    def _send_kept(self) -> None:
        while self._kept:
            head = self._kept[0]
            sent = self._try(head)
            if self.closed:
                return
            self._kept_bytes -= sent
            if sent < len(head):
                self._kept[0] = head[sent:]
                return
            self._kept.popleft()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

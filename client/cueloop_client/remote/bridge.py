"""Bytes both ways between ssh's pipes and the daemon's socket, with an end. Standard library only.

Nothing here blocks but `poll`: each direction keeps at most one buffer, and reads no more while that is full.
"""

from __future__ import annotations

import os
import select
import socket
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

ROOM = 256 * 1024
"""Bytes that are kept for a side that does not take them."""
PIECE = 4096
"""At most so many bytes are written at once to a pipe: where poll says that it takes some, it takes those without blocking (pipe(7))."""
LEAVE_SECONDS = 1.5
"""What is left for the other direction after one side has ended."""

_GONE = select.POLLERR | select.POLLHUP | select.POLLNVAL


class Bridge:
    """One copy of everything. `run` once; the socket and both descriptors stay the caller's."""

    def __init__(self, reading: int, writing: int, sock: socket.socket, monotonic: Callable[[], float], idle: float) -> None:
        """`idle`: seconds without a byte from `reading` after which the other end is taken for lost; 0: never."""
        self._reading = reading
        self._writing = writing
        self._sock = sock
        self._monotonic = monotonic
        self._idle = idle
        self._to_daemon = bytearray()
        self._to_client = bytearray()
        self._until: float | None = None
        """When to leave at the latest, once a side has ended."""
        self._client_ended = False
        self._daemon_ended = False

    def run(self) -> None:
        """Copy until either side has ended and what it sent is handed over, or the time for that is up."""
        self._sock.setblocking(False)
        heard = self._monotonic()
        while not self._is_done():
            now = self._monotonic()
            limits = [self._until] if self._until is not None else [heard + self._idle] if self._idle else []
            if limits and now >= limits[0]:
                return
            for fd, events in self._poll(limits[0] - now if limits else None):
                if fd == self._reading and self._from_client(events):
                    heard = self._monotonic()
                elif fd == self._sock.fileno():
                    self._with_daemon(events)
                if fd == self._writing and not self._into_client(events):
                    return

    def _is_done(self) -> bool:
        if self._client_ended and not self._to_daemon:
            return True  # who asked is gone: nobody reads an answer
        return self._daemon_ended and not self._to_client

    def _poll(self, seconds: float | None) -> list[tuple[int, int]]:
        poll = select.poll()
        if not self._client_ended:
            poll.register(self._reading, select.POLLIN if len(self._to_daemon) < ROOM else 0)
        if not self._daemon_ended:
            takes = select.POLLIN if len(self._to_client) < ROOM else 0
            poll.register(self._sock.fileno(), takes | (select.POLLOUT if self._to_daemon else 0))
        # Without anything to write it is watched all the same: a reader that has gone is told as an error.
        poll.register(self._writing, select.POLLOUT if self._to_client else 0)
        return poll.poll(None if seconds is None else max(0.0, seconds) * 1000)

    def _from_client(self, events: int) -> bool:
        """Whether bytes came."""
        if not events & (select.POLLIN | _GONE):
            return False
        data = _read(self._reading) if len(self._to_daemon) < ROOM else None
        if data:
            self._to_daemon += data
            return True
        if data == b"" or events & _GONE:
            self._client_ended = True
            self._leave_soon()
        return False

    def _with_daemon(self, events: int) -> None:
        if self._to_daemon and events & select.POLLOUT:
            try:
                del self._to_daemon[: self._sock.send(self._to_daemon)]
            except BlockingIOError:
                pass
            except OSError:
                self._to_daemon.clear()
                self._daemon_ended = True
                self._leave_soon()
                return
        if events & (select.POLLIN | _GONE) and len(self._to_client) < ROOM:
            try:
                data = self._sock.recv(ROOM)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            self._to_client += data
            if not data:
                self._daemon_ended = True
                self._leave_soon()

    def _into_client(self, events: int) -> bool:
        """Whether there is still somebody who reads."""
        if events & (select.POLLERR | select.POLLNVAL):
            return False
        if self._to_client and events & select.POLLOUT:
            try:
                del self._to_client[: _write(self._writing, bytes(self._to_client[:ROOM]))]
            except BlockingIOError:
                pass
            except OSError:
                return False
        return True

    def _leave_soon(self) -> None:
        if self._until is None:
            self._until = self._monotonic() + LEAVE_SECONDS


def _read(fd: int) -> bytes | None:
    """What can be read; empty at the end; None if there is nothing now."""
    try:
        return os.read(fd, ROOM)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _write(fd: int, data: bytes) -> int:
    """Write what is taken without blocking; the descriptor's own flags are shared with others and stay as they are."""
    if not stat.S_ISSOCK(os.fstat(fd).st_mode):
        return os.write(fd, data[:PIECE])
    with socket.socket(fileno=os.dup(fd)) as sock:
        return sock.send(data, socket.MSG_DONTWAIT)

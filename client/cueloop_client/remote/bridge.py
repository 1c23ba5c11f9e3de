"""Bytes both ways between two pipes and a socket, with an end. Standard library only.

The same on both machines: there the pipes are ours and the socket is the daemon's, here the pipes are ssh's and the socket is the
command's. Nothing blocks but `poll`: each direction keeps at most one buffer, and reads no more while that is full.

A line that says nothing may be dead, and ssh does not always notice: over a control master its own keep-alive is the master's business.
So both sides put a NUL between their bytes while they have nothing to say, which no message contains, and take them out again.
"""

from __future__ import annotations

import os
import select
import socket
import stat

from cueloop_protocol.frozen import Frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

ROOM = 256 * 1024
"""Bytes that are kept for a side that does not take them."""
PIECE = 4096
"""At most so many bytes are written at once to a pipe that may block: where poll says that it takes some, it takes those (pipe(7))."""
LEAVE_SECONDS = 1.5
"""How long what is left may take no byte further after one side has ended."""
BEAT = b"\0"

_GONE = select.POLLERR | select.POLLHUP | select.POLLNVAL


class Beats(Frozen):
    """Signs of life over the pipes, in seconds: one is sent after `every` of silence, and none for `idle` is the end of the line."""

    every: float
    idle: float


class Bridge:
    """One copy of everything. `run` once; the socket and both descriptors stay the caller's."""

    def __init__(
        self,
        reading: int,
        writing: int,
        sock: socket.socket,
        monotonic: Callable[[], float],
        beats: Beats | None = None,
        *,
        early: bytes = b"",
    ) -> None:
        """`beats`: as agreed with the other side; None: the bytes go as they are. `early`: what was read from `reading` already."""
        self._reading = reading
        self._writing = writing
        self._sock = sock
        self._monotonic = monotonic
        self._beats = beats
        self._to_sock = bytearray(self._without_beats(early))
        self._to_pipe = bytearray()
        self._pipe_ended = False
        self._has_hung_up = False
        """Nobody writes into the pipe any more; what stands in it could not be read yet."""
        self._sock_ended = False
        self._is_deaf = False
        """The socket takes nothing any more; what it has sent before can still be read."""
        self._until: float | None = None
        """When to leave at the latest, once a side has ended."""
        self._heard = self._said = monotonic()
        self.delivered = 0
        """Bytes that the socket has taken."""

    def run(self, last_words: Callable[[Bridge], bytes] = lambda bridge: b"") -> None:
        """Copy until either side has ended and what it sent is handed over, or that does not move.

        When the socket ends, `last_words` are put behind what came from it.
        """
        self._sock.setblocking(False)
        write = _writer(self._writing)
        self._heard = self._said = self._monotonic()
        while not self._is_done():
            now = self._monotonic()
            if (self._until is not None and now >= self._until) or self._is_silent(now):
                return
            if self._beats is not None and not self._to_pipe and now >= self._said + self._beats.every:
                self._to_pipe += BEAT
            for fd, events in self._poll(now):
                if fd == self._reading:
                    self._from_pipe(events)
                elif fd == self._sock.fileno():
                    self._with_sock(events, last_words)
                elif not self._into_pipe(events, write):
                    return

    def _is_done(self) -> bool:
        if self._pipe_ended and (not self._to_sock or self._is_deaf):
            return True  # who sent is gone: nobody reads an answer
        return self._sock_ended and not self._to_pipe

    def _is_silent(self, now: float) -> bool:
        return self._beats is not None and self._reads_pipe() and now >= self._heard + self._beats.idle

    def _reads_pipe(self) -> bool:
        return not self._pipe_ended and len(self._to_sock) < ROOM

    def _poll(self, now: float) -> list[tuple[int, int]]:
        """What can be done. What cannot be read for want of room is not looked at: its end would be told again and again."""
        poll = select.poll()
        if self._reads_pipe():
            poll.register(self._reading, select.POLLIN)
        else:
            self._heard = now
            if not self._pipe_ended and not self._has_hung_up:
                poll.register(self._reading, 0)
        wanted = select.POLLIN if len(self._to_pipe) < ROOM else 0
        wanted |= select.POLLOUT if self._to_sock and not self._is_deaf else 0
        if wanted and not self._sock_ended:
            poll.register(self._sock.fileno(), wanted)
        # Without anything to write it is watched all the same: a reader that has gone is told as an error.
        poll.register(self._writing, select.POLLOUT if self._to_pipe else 0)
        limits = [] if self._until is None else [self._until]
        if self._beats is not None:
            limits += [self._said + self._beats.every, self._heard + self._beats.idle]
        return poll.poll(max(0.0, min(limits) - now) * 1000 + 1 if limits else None)

    def _from_pipe(self, events: int) -> None:
        if not self._reads_pipe():
            self._has_hung_up = True
            self._leave_soon()
            return
        try:
            data = os.read(self._reading, ROOM)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._heard = self._monotonic()
        self._to_sock += self._without_beats(data)
        if not data:
            self._pipe_ended = True
            self._leave_soon()

    def _with_sock(self, events: int, last_words: Callable[[Bridge], bytes]) -> None:
        if self._to_sock and events & (select.POLLOUT | _GONE) and not self._is_deaf:
            self._into_sock()
        if events & (select.POLLIN | _GONE) and len(self._to_pipe) < ROOM:
            try:
                data = self._sock.recv(ROOM)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            self._to_pipe += data
            if not data:
                self._sock_ended = True
                self._to_pipe += last_words(self)
                self._leave_soon()

    def _into_sock(self) -> None:
        try:
            sent = self._sock.send(self._to_sock)
        except BlockingIOError:
            return
        except OSError:
            self._is_deaf = True
            self._to_sock.clear()
            return
        self.delivered += sent
        del self._to_sock[:sent]
        self._moved()

    def _into_pipe(self, events: int, write: Callable[[memoryview], int]) -> bool:
        """Whether there is still somebody who reads."""
        if events & (select.POLLERR | select.POLLNVAL):
            return False
        if self._to_pipe and events & select.POLLOUT:
            try:
                with memoryview(self._to_pipe) as view:
                    sent = write(view)
            except BlockingIOError:
                return True
            except OSError:
                return False
            del self._to_pipe[:sent]
            self._said = self._monotonic()
            self._moved()
        return True

    def _without_beats(self, data: bytes) -> bytes:
        return data.replace(BEAT, b"") if self._beats is not None else data

    def _moved(self) -> None:
        """What is left after an end is waited for as long as it moves, if somebody waits for it."""
        if self._until is not None and not self._pipe_ended:
            self._until = self._monotonic() + LEAVE_SECONDS

    def _leave_soon(self) -> None:
        if self._until is None:
            self._until = self._monotonic() + LEAVE_SECONDS


def _writer(fd: int) -> Callable[[memoryview], int]:
    """How to write what is taken without blocking; the descriptor's own flags may be shared with others and stay as they are."""
    if not os.get_blocking(fd):
        return lambda data: os.write(fd, data)
    if not stat.S_ISSOCK(os.fstat(fd).st_mode):
        return lambda data: os.write(fd, data[:PIECE])
    sock = socket.socket(fileno=os.dup(fd))
    return lambda data: sock.send(data, socket.MSG_DONTWAIT)

"""The shim's socket and the one connection that counts. Standard library only.

The socket is bound under a name of its own and renamed into place; where it is gone (folders in /tmp are swept, sessions end) it is
made again. Of several daemons the one with the highest generation is listened to; among equals the latest, which has reconnected.
"""

from __future__ import annotations

import _socket
import os

from cueloop_daemon.shim.lean import suppress
from cueloop_daemon.shim.listening import bind, is_ours, place_of
from cueloop_daemon.shim.loop import READ, WRITE
from cueloop_daemon.shim.wire import PROTOCOL, Hello, Lines, WireError, Wish, encode, parse_wish

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from cueloop_daemon.shim.loop import Clock, Loop

MOST_STRANGERS = 8
"""Connections that have not said hello; the oldest has to go for a new one."""
MOST_UNSENT = 256 * 1024
HALF_A_LINE = 5.0
"""Seconds that a connection may be in the middle of a line, or without a hello."""
READ_SIZE = 64 * 1024
DAY = 24 * 60 * 60


class Link:
    """One connection. `waiting` are (word, number) of wishes whose answer comes later."""

    def __init__(self, sock: _socket.socket, now: float) -> None:
        self.sock = sock
        self.fd = sock.fileno()
        self.lines = Lines()
        self.unsent = bytearray()
        self.partial_since: float | None = now
        self.is_closing = False
        self.waiting: set[tuple[str, int]] = set()


class Door:
    """Listens at `path` and gives each wish of the daemon's connection to `wish`, whose answer it sends unless that is None."""

    def __init__(self, path: str, run_id: str, loop: Loop, clock: Clock, wish: Callable[[Wish, Link], bytes | None]) -> None:
        self.generation = -1
        self.link: Link | None = None
        self.state: Callable[[str], bytes] = lambda word: encode(word)
        self._path = path
        self._run_id = run_id
        self._loop = loop
        self._clock = clock
        self._wish = wish
        self._strangers: list[Link] = []
        self._socket: _socket.socket | None = None
        self._place: tuple[int, int] | None = None
        self._touched_at = 0.0

    def open(self) -> None:
        """Bind and listen. Raises OSError."""
        self._shut()
        self._socket = bind(self._path)
        self._place = place_of(self._path)
        self._touched_at = self._clock.now
        self._loop.watch(self._socket.fileno(), READ, self._accept)

    def look_after(self) -> None:
        """Make the socket again where it is gone, keep sweepers from it, and cut who is in the middle of a line for too long."""
        now = self._clock.now
        if not self._is_there():
            with suppress(OSError):
                self.open()
        elif now - self._touched_at > DAY:
            self._touched_at = now
            with suppress(OSError):
                os.utime(self._path)
                os.utime(os.path.dirname(self._path))
        for link in (*self._strangers, *([self.link] if self.link else [])):
            if link.partial_since is not None and now - link.partial_since > HALF_A_LINE:
                self._close(link)

    def push(self, message: bytes) -> None:
        """Send to the daemon, if one is there."""
        if self.link is not None:
            self._send(self.link, message)

    def reply(self, word: str, n: int, message: bytes) -> None:
        """Send what the daemon's connection waits for, if it does."""
        if self.link is not None and (word, n) in self.link.waiting:
            self.link.waiting.discard((word, n))
            self._send(self.link, message)

    def close(self) -> None:
        """Send what is unsent as far as that needs no waiting, close everything, and remove the socket if it is ours."""
        for link in (*self._strangers, *([self.link] if self.link else [])):
            self._close(link)
        if self._is_there():
            with suppress(OSError):
                os.unlink(self._path)
        self._shut()

    def _is_there(self) -> bool:
        return self._place is not None and place_of(self._path) == self._place

    def _shut(self) -> None:
        if self._socket is not None:
            self._loop.forget(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def _accept(self, _: int) -> None:
        if self._socket is None:
            return
        try:
            fd, _address = self._socket._accept()  # type: ignore[attr-defined]  # what `socket.accept` calls; not in the stubs
        except OSError:
            return
        sock = _socket.socket(fileno=fd)
        if not is_ours(sock):
            sock.close()
            return
        sock.setblocking(False)
        link = Link(sock, self._clock.now)
        self._strangers.append(link)
        if len(self._strangers) > MOST_STRANGERS:
            self._close(self._strangers[0])
        self._loop.watch(link.fd, READ, lambda events: self._ready(link, events))

    def _ready(self, link: Link, events: int) -> None:
        if events & WRITE:
            self._flush(link)
        if not link.is_closing and events & ~WRITE:
            self._receive(link)

    def _receive(self, link: Link) -> None:
        try:
            data = link.sock.recv(READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._close(link)
            return
        try:
            for line in link.lines.feed(data):
                self._obey(link, parse_wish(line))
                if link.is_closing:
                    return
        except WireError:
            self._close(link)
            return
        if link.lines.is_partial:
            link.partial_since = self._clock.now if link.partial_since is None else link.partial_since
        elif link is self.link:
            link.partial_since = None

    def _obey(self, link: Link, wish: Wish) -> None:
        if isinstance(wish, Hello):
            self._greet(link, wish)
        elif link is self.link:
            answer = self._wish(wish, link)
            if answer is not None:
                self._send(link, answer)
        else:
            raise WireError("no hello")

    def _greet(self, link: Link, hello: Hello) -> None:
        why = None
        if not hello.low <= PROTOCOL <= hello.high:
            why = "version"
        elif hello.run_id != self._run_id:
            why = "run"
        elif hello.generation < self.generation:
            why = "fenced"
        if why is not None:
            self._refuse(link, why)
            return
        former, self.link, self.generation = self.link, link, hello.generation
        if link in self._strangers:
            self._strangers.remove(link)
        if former is not None and former is not link:
            self._refuse(former, "fenced")
        link.partial_since = None
        self._send(link, self.state("shim"))

    def _refuse(self, link: Link, why: str) -> None:
        self._send(link, encode("refused", why=why))
        self._close(link)

    def _send(self, link: Link, message: bytes) -> None:
        if link.is_closing:
            return
        link.unsent += message
        self._flush(link)
        if len(link.unsent) > MOST_UNSENT:
            self._close(link)  # its status tells everything again

    def _flush(self, link: Link) -> None:
        try:
            while link.unsent:
                del link.unsent[: link.sock.send(link.unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self._close(link)
            return
        self._loop.watch(link.fd, READ | (WRITE if link.unsent else 0), lambda events: self._ready(link, events))

    def _close(self, link: Link) -> None:
        if link.is_closing:
            return
        link.is_closing = True
        self._loop.forget(link.fd)
        link.sock.close()
        if link in self._strangers:
            self._strangers.remove(link)
        if link is self.link:
            self.link = None

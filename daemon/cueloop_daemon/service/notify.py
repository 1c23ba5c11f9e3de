"""Telling systemd how we are: datagrams as of sd_notify(3). Standard library only.

Nothing here waits or fails: a manager whose socket is full, gone or out of reach is not told, and the daemon goes on.
"""

from __future__ import annotations

import socket
from contextlib import contextmanager, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LONGEST = 107
"""Bytes of a Unix socket's address without its NUL."""
STATUS_LENGTH = 200


class Notifier:
    """One manager's socket, or nobody's. May be used from any thread; each message is one datagram."""

    def __init__(self, address: str | None, monotonic: Callable[[], float]) -> None:
        """`address` as in `NOTIFY_SOCKET`: a path, or `@` and an abstract name. Any other is nobody's. `monotonic` gives seconds."""
        self._address = _address(address)
        self._monotonic = monotonic
        self._status: str | None = None

    def __bool__(self) -> bool:
        return self._address is not None

    def ready(self, status: str) -> None:
        """The socket is served."""
        self._status = _line(status)
        self._send("READY=1", f"STATUS={self._status}")

    def status(self, status: str) -> None:
        """One line for people; told only when it is another than before."""
        line = _line(status)
        if line != self._status:
            self._status = line
            self._send(f"STATUS={line}")

    def stopping(self, status: str) -> None:
        """We leave."""
        self._status = _line(status)
        self._send("STOPPING=1", f"STATUS={self._status}")

    def alive(self) -> None:
        """A sign of life for the manager's watchdog."""
        self._send("WATCHDOG=1")

    @contextmanager
    def reloading(self) -> Iterator[None]:
        """Around a change of settings, without an await in between: a unit that stays "reloading" accepts no job any more."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={int(self._monotonic() * 1_000_000)}")
        try:
            yield
        finally:
            self._send("READY=1")

    def _send(self, *lines: str) -> None:
        if self._address is None:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
            sock.setblocking(False)
            sock.sendto("\n".join(lines).encode("utf-8", "replace"), self._address)


def _address(text: str | None) -> bytes | None:
    if not text or text[0] not in "/@" or len(text) < 2:
        return None
    address = text.encode("utf-8", "surrogateescape")
    if len(address) > LONGEST:
        return None
    return b"\0" + address[1:] if text[0] == "@" else address


def _line(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)[:STATUS_LENGTH]

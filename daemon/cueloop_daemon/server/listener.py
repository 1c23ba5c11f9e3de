"""The listening socket: how it gets its name, whether that name is still its own, and how connections come out of it.

Bound by hand. The listeners of asyncio and anyio remove whatever stands at the path, a live daemon's socket too, and leave the
new one open to others until a later chmod. Here the name appears by rename, when the socket listens and has its final mode.
The caller holds the ownership of the repository, so what is replaced is a leftover of a dead daemon.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import stat
from collections.abc import Callable
from contextlib import suppress

import anyio

log = logging.getLogger(__name__)

BACKLOG = 4096
"""A full backlog fails a caller at once; the kernel lowers this to `net.core.somaxconn`."""

_NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_PEER_GONE = frozenset({errno.ECONNABORTED, errno.EPROTO, errno.EINTR, errno.EPERM})

Accept = Callable[[socket.socket], socket.socket]


def accept_one(sock: socket.socket) -> socket.socket:
    """The next waiting connection. Raises BlockingIOError if there is none, OSError as accept(2)."""
    return sock.accept()[0]


class Listener:
    """A listening Unix socket with a name (ours, or the service manager's)."""

    def __init__(self, sock: socket.socket, path: str, identity: tuple[int, int] | None) -> None:
        """`identity` is device and inode of the name if we made it; None if it belongs to somebody else and stays."""
        sock.setblocking(False)
        self._sock = sock
        self._identity = identity
        self._found = _identity(path) if identity is None else identity
        self._left_over: list[socket.socket] = []
        self._is_short = False
        self.path = path

    @classmethod
    def bind(cls, path: str) -> Listener:
        """Listen at `path`, whose folder exists, is ours and 0700. Raises OSError; then no name is left behind."""
        sock, identity = _bind(path)
        return cls(sock, path, identity)

    @classmethod
    def adopt(cls, fd: int, path: str) -> Listener:
        """Take a listening socket that a service manager passed, at descriptor `fd`. Its name at `path` is never removed by us.

        Raises ValueError if it is no listening Unix stream socket. The descriptor is ours from then on. It is listened to once more:
        the kernel then names us, not the manager, as the peer of new connections, and the backlog is as long as ours.
        """
        sock = socket.socket(fileno=fd)
        if sock.family != socket.AF_UNIX or sock.type != socket.SOCK_STREAM or not _is_listening(sock):
            sock.detach()
            raise ValueError(f"descriptor {fd} is no listening Unix stream socket")
        os.set_inheritable(fd, False)
        sock.listen(BACKLOG)
        return cls(sock, path, None)

    @classmethod
    def inherit(cls, fd: int, path: str, identity: tuple[int, int]) -> Listener:
        """Go on with a predecessor's listening socket at descriptor `fd`; its name, `identity` at `path`, is ours from then on.

        It is listened to once more: from there on the kernel names us, not the predecessor, as the peer of new connections.
        Raises OSError.
        """
        sock = socket.socket(fileno=fd)
        os.set_inheritable(fd, False)
        sock.listen(BACKLOG)
        return cls(sock, path, identity)

    @property
    def identity(self) -> tuple[int, int] | None:
        """Device and inode of the name; None if it belongs to somebody else."""
        return self._identity

    def duplicate(self) -> int:
        """The same socket once more, as a descriptor that is the caller's."""
        return os.dup(self._sock.fileno())

    def let_go(self) -> None:
        """Stop listening and leave name and queue to whoever else has the socket: those who wait are accepted by that one."""
        self._identity = None
        self.close()

    @property
    def is_managed(self) -> bool:
        """Whether the socket is a service manager's: who waits in its queue when we leave waits for the next daemon."""
        return self._identity is None

    def still_ours(self) -> bool:
        """Whether callers who use the name reach this socket."""
        return self._found is not None and _identity(self.path) == self._found

    def rebind(self, elsewhere: str | None = None) -> None:
        """Make a socket at the path again (its name was removed) and go on with that; connections are not touched.

        `elsewhere`: at this path instead, where the old one's folder has gone, or its name belongs to a manager. Who waits in the
        old one comes out of the next `accept`. Raises OSError; then the old one is kept.
        """
        if self.is_managed and elsewhere is None:
            raise ValueError("the name belongs to whoever passed the socket")
        path = elsewhere or self.path
        new, identity = _bind(path)
        new.setblocking(False)
        old, self._sock, self._identity, self._found, self.path = self._sock, new, identity, identity, path
        self._left_over += _all_who_wait(old)
        anyio.notify_closing(old)
        old.close()

    def retire(self) -> list[socket.socket]:
        """Remove the name, if it is still our own, and give out those who came by it and wait: a close would cut them off.

        Those who wait at a manager's socket are left to the next daemon, which they start.
        """
        self._remove_name()
        left, self._left_over = self._left_over, []
        return left if self.is_managed else [*left, *_all_who_wait(self._sock)]

    def close(self) -> None:
        """Stop listening; without `retire` before it, who waits is cut off. May be called again."""
        if self._sock.fileno() < 0:
            return
        self._remove_name()
        for sock in self._left_over:
            sock.close()
        anyio.notify_closing(self._sock)
        self._sock.close()

    def _remove_name(self) -> None:
        if self._identity is not None and self.still_ours():
            with suppress(OSError):
                os.unlink(self.path)

    async def accept(self, accept: Accept = accept_one) -> list[socket.socket]:
        """The connections that wait now, at least one, non-blocking; empty if the system has no descriptor for one.

        In that case the caller pauses before it asks again: the socket stays readable, so asking at once would spin.
        A peer that has gone already is no reason to stop. Raises ClosedResourceError after `close`, other OSErrors as they are.
        """
        while True:
            if self._left_over:
                left, self._left_over = self._left_over, []
                return left
            sock = self._sock
            try:
                await anyio.wait_readable(sock)
            except anyio.ClosedResourceError:
                if sock is self._sock:
                    raise
                continue  # replaced by `rebind`
            taken, shortage = _take_all(sock, accept)
            if shortage is not None and not self._is_short:
                log.warning("no_descriptor_for_connection error=%s", shortage.strerror)
            self._is_short = shortage is not None
            if taken or shortage:
                return taken


def _all_who_wait(sock: socket.socket) -> list[socket.socket]:
    waiting: list[socket.socket] = []
    while taken := _take_all(sock, accept_one)[0]:
        waiting += taken
    return waiting


def _take_all(sock: socket.socket, accept: Accept) -> tuple[list[socket.socket], OSError | None]:
    """The waiting connections, and the error if the system ran out of descriptors. At most 64, so that these get going first."""
    taken: list[socket.socket] = []
    for _ in range(64):
        try:
            peer = accept(sock)
        except BlockingIOError:
            break
        except OSError as error:
            if error.errno in _PEER_GONE:
                continue
            if error.errno in _NO_DESCRIPTOR:
                return taken, error
            raise
        peer.setblocking(False)
        taken.append(peer)
    return taken, None


def _bind(path: str) -> tuple[socket.socket, tuple[int, int]]:
    temporary = _temporary_name(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with suppress(FileNotFoundError):
            os.unlink(temporary)  # of a daemon that died in between
        mask = os.umask(0o177)
        try:
            sock.bind(temporary)
        finally:
            os.umask(mask)
        try:
            sock.listen(BACKLOG)
            identity = _identity(temporary)
            if identity is None:
                raise FileNotFoundError(errno.ENOENT, "the new socket's name was removed", temporary)
            os.rename(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
    except BaseException:
        sock.close()
        raise
    return sock, identity


def _temporary_name(path: str) -> str:
    """A name beside `path`, shorter than `d.sock`, as the limit on socket paths counts here too. One owner, one name."""
    return os.path.join(os.path.dirname(path), "d.new")


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISSOCK(found.st_mode) else None


def _is_listening(sock: socket.socket) -> bool:
    return bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))

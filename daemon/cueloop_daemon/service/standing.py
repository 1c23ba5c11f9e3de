"""Whether somebody listens: at a path where we would, or through a descriptor that we were given. Standard library only."""

from __future__ import annotations

import errno
import os
import socket
import stat

from cueloop_protocol.place import find_socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from cueloop_protocol.roots import Root


def listens(path: str) -> bool:
    """Whether a process listens at the Unix socket there. To connect is to ask: a service manager starts its daemon by that."""
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.setblocking(False)
            sock.connect(path)
    except OSError as exc:
        return exc.errno == errno.EAGAIN  # so many wait already
    return True


def is_listener(fd: int) -> bool:
    """Whether the descriptor, which stays as it is, is a Unix stream socket that listens. Raises OSError for one that is not open."""
    if not stat.S_ISSOCK(os.fstat(fd).st_mode):
        return False
    with socket.socket(fileno=os.dup(fd)) as sock:
        return (
            sock.family == socket.AF_UNIX
            and sock.type == socket.SOCK_STREAM
            and bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
        )


def managed_socket(root: Root, environ: Mapping[str, str], uid: int) -> str | None:
    """Where somebody listens for the root. With its locks in our hands that is a service manager: a daemon listens while it owns."""
    return next((path for path in find_socket(root, environ, uid) if listens(path)), None)

"""A Unix socket in a folder of ours alone. Standard library only.

`_socket`, because what the module `socket` puts around it takes a thirtieth of the memory that the whole process may have.
"""

from __future__ import annotations

import _socket
import errno
import os
import stat
import struct
import sys

from cueloop_daemon.shim.lean import suppress
from cueloop_protocol.identity import peer_uid

BACKLOG = 128


def bind(path: str) -> _socket.socket:
    """A listening socket that does not block, bound under a temporary name and renamed to `path`. Raises OSError."""
    _ensure_private(os.path.dirname(path))
    temp = os.path.join(os.path.dirname(path), f".{os.getpid()}")
    with suppress(FileNotFoundError):
        os.unlink(temp)
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.bind(temp)
        os.chmod(temp, 0o600)
        sock.listen(BACKLOG)
        os.rename(temp, path)
    except OSError:
        sock.close()
        raise
    return sock


def place_of(path: str) -> tuple[int, int] | None:
    """Device and inode of what is at the path, None if nothing is."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def is_ours(sock: _socket.socket) -> bool:
    """Whether the same user is at the other end."""
    try:
        if sys.platform != "linux":
            return peer_uid(sock) == os.getuid()  # type: ignore[arg-type]  # only `getsockopt` is called, which this has too
        _, uid, _ = struct.unpack("iII", sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12))
    except OSError:
        return False
    return bool(uid == os.getuid())


def _ensure_private(folder: str) -> None:
    """The folder exists, is ours, and nobody else may enter it. Raises OSError."""
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) != 0o700:
        raise PermissionError(errno.EACCES, "not a folder of ours alone", folder)

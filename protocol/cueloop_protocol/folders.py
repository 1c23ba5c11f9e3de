"""Folders whose path no single system call takes: opened in pieces, and their path found again. Standard library only."""

from __future__ import annotations

import errno
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

PATH_MAX = 1024 if sys.platform == "darwin" else 4096
"""What one system call takes, in bytes, with the closing NUL."""
ROOM = 256
"""Bytes kept free behind a root for the longest path that we build below it."""
PIECE = PATH_MAX - ROOM
_DIRECTORY = os.O_DIRECTORY | os.O_CLOEXEC | (os.O_PATH if sys.platform == "linux" else os.O_RDONLY)


def open_folder(path: str) -> int:
    """A descriptor of the folder at `path`, however long it is; close it. Raises OSError."""
    data = os.fsencode(path)
    fd = os.open("/" if data.startswith(b"/") else ".", _DIRECTORY)
    try:
        for piece in _pieces(data):
            deeper = os.open(piece, _DIRECTORY, dir_fd=fd)
            os.close(fd)
            fd = deeper
    except BaseException:
        os.close(fd)
        raise
    return fd


def path_of_folder(path: str) -> str:
    """The physical path of the folder at `path`, both of any length. Raises OSError."""
    fd = open_folder(path)
    try:
        return _path_of(fd)
    finally:
        os.close(fd)


def working_directory() -> str:
    """The physical working directory, also where the C library gives up at PATH_MAX. Raises OSError."""
    try:
        return os.getcwd()
    except OSError as exc:
        if exc.errno not in (errno.ENAMETOOLONG, errno.ERANGE):
            raise
        return path_of_folder(".")


def _pieces(path: bytes) -> Iterator[bytes]:
    """`path` cut at slashes into relative paths that a system call takes; ends with `.`, so that a plain file fails."""
    piece = b""
    for name in path.split(b"/"):
        if not name:
            continue
        if piece and len(piece) + 1 + len(name) > PIECE:
            yield piece
            piece = b""
        piece = piece + b"/" + name if piece else name
    yield piece or b"."


def _path_of(fd: int) -> str:
    """The physical path of an open folder: what the kernel says, or where that is too long, by walking up to `/`."""
    try:
        if sys.platform == "darwin":
            import fcntl

            return os.fsdecode(fcntl.fcntl(fd, 50, bytes(PATH_MAX)).rstrip(b"\0"))  # F_GETPATH: also the true case of letters
        path = os.readlink(f"/proc/self/fd/{fd}")
        if os.path.samestat(os.stat(path), os.fstat(fd)):
            return path
    except OSError:
        pass
    return _path_by_walking(fd)


def _path_by_walking(start: int) -> str:
    names: list[str] = []
    fd = os.dup(start)
    try:
        while True:
            above = os.open("..", _DIRECTORY, dir_fd=fd)
            here = os.fstat(fd)
            os.close(fd)
            fd = above
            if os.path.samestat(here, os.fstat(fd)):
                return "/" + "/".join(reversed(names))
            names.append(_name_in(fd, here))
    finally:
        os.close(fd)


def _name_in(folder: int, wanted: os.stat_result) -> str:
    """The name under which `folder` holds the folder `wanted`; by inode, as a mount point's directory entry shows another."""
    readable = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        for name in os.listdir(readable):
            try:
                if os.path.samestat(os.stat(name, dir_fd=readable, follow_symlinks=False), wanted):
                    return name
            except OSError:
                continue
    finally:
        os.close(readable)
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

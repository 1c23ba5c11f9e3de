"""Small files in a run's folder, through its descriptor: whole or not there. Standard library only.

Nothing here is fsynced: a killed process's writes stay, and after a power cut a run's processes are gone anyway.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat

LIMIT = 8 * 1024 * 1024
"""Bytes of a file that is read whole."""
_SERIAL = itertools.count()


def put(folder: int, name: str, data: bytes) -> None:
    """A file of mode 0600 with exactly these bytes, in place of any other. Raises OSError, and then nothing has changed."""
    temp = f".{name}.{os.getpid()}-{next(_SERIAL)}.new"
    fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(fd, rest) :]
        finally:
            os.close(fd)
        os.rename(temp, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temp, dir_fd=folder)
        raise


def get(folder: int, name: str, uid: int) -> bytes | None:
    """What a plain file of `uid` holds; None where there is none. Raises OSError where it cannot be read."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != uid or status.st_size > LIMIT:
            return None
        pieces = []
        while piece := os.read(fd, LIMIT):
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        os.close(fd)


def exists(folder: int, name: str) -> bool:
    """Whether anything has this name."""
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True

"""The beginning of a file, whatever stands at its path: never waiting, never much."""

from __future__ import annotations

import os
import stat


def beginning(path: str, limit: int, *, follow: bool = True) -> bytes:
    """The first `limit` bytes of a regular file; none where there is no such file, or it cannot be read. A FIFO does not block."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    except (OSError, ValueError):
        return b""
    try:
        return os.read(fd, limit) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    except OSError:
        return b""
    finally:
        os.close(fd)

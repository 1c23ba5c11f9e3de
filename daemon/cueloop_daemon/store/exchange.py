"""Replacing a file that others write too: exchange, look at what came out, put theirs back. Standard library only.

Bytes are compared, never times. Where the exchange is missing (old kernels, some network and user-space file systems) `swap` says
so and the caller compares, replaces, and looks at the old inode again. There, and only there, a file that is renamed into place
between the last look and the replacement is lost.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from typing import Literal

from cueloop_daemon.store.etag import SESSION_LIMIT, etag_of_bytes, etag_of_stat
from cueloop_daemon.store.system import UNSUPPORTED, System
from cueloop_protocol.values import dataclass

ATTEMPTS = 100
"""How often a file that changes under our hands is looked at again before we give up."""

Kind = Literal["file", "unreadable", "link", "folder", "special"]


@dataclass(frozen=True, slots=True)
class Sight:
    """What stood at a path when it was looked at. `data` is None for what is not read: all but files of at most 1 MiB."""

    kind: Kind
    etag: str
    inode: int
    mode: int
    data: bytes | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """An open file: still the same one, whatever happens to its name."""

    fd: int
    system: System

    def look(self) -> Sight:
        """Its content now. Raises `OSError`."""
        status = self.system.fstat(self.fd)
        data = None if status.st_size > SESSION_LIMIT else _read(self.system, self.fd)
        if data is None:
            return Sight("file", etag_of_stat(self.system.fstat(self.fd)), status.st_ino, stat.S_IMODE(status.st_mode))
        return Sight("file", etag_of_bytes(data), status.st_ino, stat.S_IMODE(status.st_mode), data)


def look(system: System, path: str) -> Sight | None:
    """What is at the path, None if nothing. Follows no link, waits for no FIFO. Raises `OSError` for all but "no access"."""
    with hold(system, path) as held:
        return held.look() if isinstance(held, Held) else held


@contextlib.contextmanager
def hold(system: System, path: str) -> Iterator[Held | Sight | None]:
    """The regular file at the path, open for reading; or what else stands there; or None."""
    opened = _open(system, path)
    if not isinstance(opened, int):
        yield opened
        return
    try:
        yield Held(opened, system)
    finally:
        system.close(opened)


def place_new(system: System, source: str, target: str) -> bool:
    """Rename to a name that is free; False if it is not. Without the system call: a second name, then the first removed."""
    try:
        system.rename_new(source, target)
    except FileExistsError:
        return False
    except OSError as exc:
        if exc.errno not in UNSUPPORTED:
            raise
        return _place_by_link(system, source, target)
    return True


def swap(system: System, one: str, other: str) -> bool:
    """Exchange two files; False where that cannot be done. Raises `FileNotFoundError` if one is missing."""
    try:
        system.exchange(one, other)
    except OSError as exc:
        if exc.errno not in UNSUPPORTED:
            raise
        return False
    return True


def put_back(system: System, aside: str, path: str, ours: str) -> None:
    """Give `path` the file at `aside`, which came out when we put the bytes `ours` there.

    Whatever is written to `path` meanwhile is newer and stays there. Afterwards `aside` holds what no longer belongs at `path`:
    ours, or bytes of somebody's that were overtaken. Nothing is moved if `path` is gone by then.
    """
    placed = ours
    for _ in range(ATTEMPTS):
        ready = look(system, aside)
        try:
            system.exchange(aside, path)
        except FileNotFoundError:
            return
        out = look(system, aside)
        if ready is None or out is None or out.etag == placed:
            return
        placed = ready.etag


def _open(system: System, path: str) -> int | Sight | None:
    try:
        status = system.lstat(path)
        kind = _kind(status.st_mode)
        if kind == "file":
            fd = system.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            kind = _kind(system.fstat(fd).st_mode)
            if kind == "file":
                return fd
            system.close(fd)
    except FileNotFoundError:
        return None
    except OSError as exc:
        if exc.errno not in (errno.EACCES, errno.EPERM, errno.ELOOP):
            raise
        status = system.lstat(path)
        kind = "link" if stat.S_ISLNK(status.st_mode) else "unreadable"
    return Sight(kind, etag_of_stat(status), status.st_ino, stat.S_IMODE(status.st_mode))


def _kind(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISLNK(mode):
        return "link"
    return "folder" if stat.S_ISDIR(mode) else "special"


def _read(system: System, fd: int) -> bytes | None:
    """The whole file; None if it has grown over the limit."""
    pieces: list[bytes] = []
    size = 0
    while piece := system.pread(fd, SESSION_LIMIT + 1 - size, size):
        pieces.append(piece)
        size += len(piece)
        if size > SESSION_LIMIT:
            return None
    return b"".join(pieces)


def _place_by_link(system: System, source: str, target: str) -> bool:
    try:
        system.link(source, target)
    except FileExistsError:
        return False
    system.unlink(source)
    return True

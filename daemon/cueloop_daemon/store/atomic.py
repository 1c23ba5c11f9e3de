"""Writing a file whole or not at all. Standard library only.

Order: temporary file in the same folder, write, fsync, rename, fsync of the folder. A temporary file's name says which process
made it, so that a later start can tell a dead one's leftovers from a living one's, and both from other programs' files.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Callable, Iterator

from cueloop_daemon.store.system import System
from cueloop_protocol.values import dataclass

_ATTEMPTS = 1000
_TEMP = re.compile(
    r"\.(?P<target>.+)\.cueloopd-(?P<pid>[0-9]{1,10})-(?P<start>[0-9A-Za-z._]+)-(?P<serial>[0-9]{1,4})"
    r"(?:\.tmp|-(?P<inode>[0-9]{1,20})\.swap)",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Author:
    """The process that writes: its pid and when it started, as `cueloop_protocol.identity` words it."""

    pid: int
    start_time: str

    @property
    def tag(self) -> str:
        """How the process appears in a temporary file's name."""
        return f"{self.pid}-{_plain(self.start_time)}"


@dataclass(frozen=True, slots=True)
class TempName:
    """A name that only we give. `inode` is set once the file may be exchanged: a file of another inode under it came out."""

    target: str
    pid: int
    start_time: str
    inode: int | None

    def is_alive(self, start_time_of: Callable[[int], str | None]) -> bool:
        """Whether the process that made it still runs; `start_time_of` gives None for a pid that nobody has."""
        started = start_time_of(self.pid)
        return started is not None and _plain(started) == self.start_time


def parse_temp(name: str) -> TempName | None:
    """What a file name in one of our folders says, or None if it is not one of ours."""
    found = _TEMP.fullmatch(name)
    if found is None:
        return None
    inode = found["inode"]
    return TempName(found["target"], int(found["pid"]), found["start"], None if inode is None else int(inode))


def write_temp(system: System, path: str, data: bytes, author: Author, mode: int = 0o600, *, durable: bool = True) -> str:
    """A new file beside `path` with exactly these bytes and this mode; its path. On failure nothing is left.

    It is on the medium, unless it need not be `durable`.
    """
    temp, fd = _create(system, path, author, mode)
    try:
        try:
            if stat.S_IMODE(system.fstat(fd).st_mode) != mode:
                system.fchmod(fd, mode)
            write_all(system, fd, data)
            if durable:
                system.fsync(fd)
        finally:
            system.close(fd)
    except BaseException:
        discard(system, temp)
        raise
    return temp


def write_file(system: System, path: str, data: bytes, author: Author, mode: int = 0o600, *, durable: bool = True) -> None:
    """Replace `path`: old or new, never less. For files that only we write. Raises `OSError` and leaves no temporary.

    `durable`: this holds also when the power fails. Else it holds for whoever reads while the machine runs; after a power cut
    the file may be anything, so it has to be one that nobody believes then.
    """
    temp = write_temp(system, path, data, author, mode, durable=durable)
    try:
        system.replace(temp, path)
    except BaseException:
        discard(system, temp)
        raise
    if durable:
        system.fsync_folder(os.path.dirname(path))


def write_all(system: System, fd: int, data: bytes) -> None:
    """Write every byte, however few are taken at a time."""
    rest = memoryview(data)
    while rest:
        taken = system.write(fd, rest)
        if taken == 0:
            raise OSError(errno.EIO, "the system took no bytes")
        rest = rest[taken:]


def discard(system: System, path: str) -> None:
    """Remove a temporary file; what fails here is left to the sweep at the next start."""
    with contextlib.suppress(OSError):
        system.unlink(path)


def sweep(system: System, folder: str, start_time_of: Callable[[int], str | None]) -> tuple[str, ...]:
    """Remove what dead processes of ours left unpublished in `folder`; the names removed.

    Other programs' files, a living writer's, and files that came out of an exchange (somebody's bytes) are not touched.
    """
    removed: list[str] = []
    for name in _names(system, folder):
        temp = parse_temp(name)
        if temp is None or temp.is_alive(start_time_of) or not _is_own(system, f"{folder}/{name}", temp):
            continue
        with contextlib.suppress(OSError):
            system.unlink(f"{folder}/{name}")
            removed.append(name)
    return tuple(removed)


def _is_own(system: System, path: str, temp: TempName) -> bool:
    try:
        status = system.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and (temp.inode is None or temp.inode == status.st_ino)


def _names(system: System, folder: str) -> list[str]:
    try:
        return system.listdir(folder)
    except OSError:
        return []


def _create(system: System, path: str, author: Author, mode: int) -> tuple[str, int]:
    for temp in temp_paths(path, author, ".tmp"):
        with contextlib.suppress(FileExistsError):
            return temp, system.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)


def temp_paths(path: str, author: Author, ending: str) -> Iterator[str]:
    """The names that a temporary file beside `path` may have, in the order in which they are tried."""
    folder, name = os.path.split(path)
    for serial in range(_ATTEMPTS):
        yield f"{folder}/.{name}.cueloopd-{author.tag}-{serial}{ending}"


def _plain(start_time: str) -> str:
    return re.sub(r"[^0-9A-Za-z._]", "_", start_time, flags=re.ASCII) or "_"

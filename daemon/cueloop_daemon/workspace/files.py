"""Files by path: what their stat says, and their bytes, read again only when the stat changed.

The stat is the truth (device, inode, size, mtime, ctime, in nanoseconds). A rewrite within one tick of the file system's
clock leaves the same stat, so a file that was read within `TICK_NS` of its own time stamps counts as unsettled and is read
again next time.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from cueloop_protocol.values import dataclass

T = TypeVar("T")

Signature = tuple[int, ...]
"""(device, inode, size, mtime_ns, ctime_ns); empty when there is no such file; (-errno,) when it cannot be looked at."""

MISSING: Signature = ()
_IS_MISSING = (FileNotFoundError, NotADirectoryError)
TICK_NS = 20_000_000
READ_LIMIT = 256 * 1024 * 1024
"""No file that we read is larger than this many bytes; a larger one is refused unread."""
MOST_FILES = 512
"""Small files that are remembered from one load to the next: configuration, trust and plugins of eight callers, and some more."""


def sign(path: str) -> Signature:
    """The signature of what `path` leads to, links followed."""
    return _sign(os.stat, path)


def sign_link(path: str) -> Signature:
    """The signature of `path` itself: a link counts as itself."""
    return _sign(os.lstat, path)


def _sign(look: Callable[[str], os.stat_result], path: str) -> Signature:
    try:
        st = look(path)
    except OSError as error:
        return _signature_of(error)
    return (st.st_dev, st.st_ino, st.st_size, st.st_mtime_ns, st.st_ctime_ns)


def _signature_of(error: OSError) -> Signature:
    return MISSING if isinstance(error, _IS_MISSING) else (-(error.errno or errno.EIO),)


def is_unsettled(signature: Signature, read_at_ns: int) -> bool:
    """Whether a file with this signature, read at this wall time (nanoseconds), could have changed without a trace."""
    return len(signature) == 5 and (abs(read_at_ns - signature[3]) < TICK_NS or abs(read_at_ns - signature[4]) < TICK_NS)


@dataclass(frozen=True, slots=True)
class Input:
    """One thing that an answer depends on, with the signature it had when it was read."""

    path: str
    signature: Signature
    is_link_itself: bool = False
    is_folder: bool = False
    """What counts is which entries the folder has."""


def are_unchanged(inputs: Iterable[Input]) -> bool:
    """Whether all have their signatures now. The same as signing each anew, in one function: every answer begins with it."""
    stat_of, link_stat_of = os.stat, os.lstat
    for thing in inputs:
        signature = thing.signature
        try:
            st = link_stat_of(thing.path) if thing.is_link_itself else stat_of(thing.path)
        except _IS_MISSING:
            if signature:
                return False
        except OSError as error:
            if signature != _signature_of(error):
                return False
        else:
            if signature != (st.st_dev, st.st_ino, st.st_size, st.st_mtime_ns, st.st_ctime_ns):
                return False
    return True


def telling(inputs: Sequence[Input]) -> tuple[Input, ...]:
    """The inputs that have to be looked at: what would lie in a folder that is itself a missing input can only be missing."""
    missing = {thing.path for thing in inputs if thing.signature == MISSING}
    return tuple(thing for thing in inputs if os.path.dirname(thing.path) not in missing)


@dataclass(slots=True)
class _Kept:
    signature: Signature
    unsettled: bool
    data: bytes | None


class FileCache:
    """The bytes of small files, shared by all callers of a repository. Not thread-safe: one reader at a time."""

    def __init__(self, wall_ns: Callable[[], int]) -> None:
        self._wall_ns = wall_ns
        self._kept: dict[str, _Kept] = {}

    def read(self, path: str) -> bytes | None:
        """The bytes at `path`, or None where there is no such file.

        Raises OSError: no access, an I/O error, a folder (IsADirectoryError), no regular file, too large (EFBIG).
        """
        kept = self._kept.get(path)
        signature = sign(path)
        self._kept.pop(path, None)
        if kept is not None and kept.signature == signature and not kept.unsettled:
            self._kept[path] = kept  # behind those that were not asked for since
            return kept.data
        read_at = self._wall_ns()
        data, signature = read_regular(path)
        self._kept[path] = _Kept(signature, is_unsettled(signature, read_at), data)
        return data

    def unsettled(self, path: str) -> bool:
        """Whether what was read last of `path` must be read again although its stat may be the same."""
        kept = self._kept.get(path)
        return kept is not None and kept.unsettled

    def forget_oldest(self) -> None:
        """Keep the MOST_FILES files that were asked for last. Not within a load, which asks `unsettled` of what it has read."""
        forget_all_but(self._kept, MOST_FILES)


def forget_all_but(kept: dict[str, T], most: int) -> None:
    """Forget the entries that were put in first, until there are `most`."""
    for path in list(kept)[: max(0, len(kept) - most)]:
        del kept[path]


def read_regular(path: str) -> tuple[bytes | None, Signature]:
    """The bytes of a regular file and the signature they had, never waiting (a FIFO would). A missing file is (None, MISSING).

    A file that changed while it was read is read again, at most three times; what stands after that is returned as it is, since
    its signature will not match the next look. Raises OSError as `FileCache.read` does.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None, MISSING
    try:
        for _ in range(3):
            before = os.fstat(fd)
            if stat.S_ISDIR(before.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            if not stat.S_ISREG(before.st_mode):
                raise OSError(errno.EINVAL, "not a regular file", path)
            if before.st_size > READ_LIMIT:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
            os.lseek(fd, 0, os.SEEK_SET)
            data = _read_all(fd, before.st_size)
            after = os.fstat(fd)
            if (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns):
                break
        return data, (before.st_dev, before.st_ino, before.st_size, before.st_mtime_ns, before.st_ctime_ns)
    finally:
        os.close(fd)


def _read_all(fd: int, expected: int) -> bytes:
    chunks: list[bytes] = []
    total = 0
    while total <= READ_LIMIT:
        chunk = os.read(fd, max(expected - total, 0) + 1)
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)
        total += len(chunk)
    raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))

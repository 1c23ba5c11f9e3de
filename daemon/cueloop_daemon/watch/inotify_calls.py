"""Linux inotify through ctypes: three calls and a parser. The masks leave out what reading causes (open, access, attributes)."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

CLOSE_WRITE, MOVED_FROM, MOVED_TO = 0x8, 0x40, 0x80
CREATE, DELETE, DELETE_SELF, MOVE_SELF = 0x100, 0x200, 0x400, 0x800
UNMOUNT, OVERFLOW, IGNORED = 0x2000, 0x4000, 0x8000
ONLYDIR = 0x1000000

SELF_MASK = DELETE_SELF | MOVE_SELF | ONLYDIR
ENTRIES_MASK = SELF_MASK | CREATE | DELETE | MOVED_FROM | MOVED_TO
CONTENT_MASK = ENTRIES_MASK | CLOSE_WRITE
GONE = DELETE_SELF | MOVE_SELF | UNMOUNT | IGNORED
"""The watched folder is not, or may not be, where it was."""

_HEAD = struct.Struct("iIII")


class Event(NamedTuple):
    """One event: the watch it belongs to (-1 for overflow), its bits, and the entry's name, empty for the folder itself."""

    watch: int
    mask: int
    name: str


class InotifyCalls:
    """The real calls; each raises OSError with the kernel's number. A test gives a subclass."""

    def init(self) -> int:
        """A new non-blocking queue; its descriptor is inherited by no child."""
        return _checked(_libc().inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def add(self, fd: int, path: str, mask: int) -> int:
        """Watch the folder at `path`; the number is the same again for the same folder, whose mask is replaced."""
        return _checked(_libc().inotify_add_watch(fd, os.fsencode(path), mask))

    def remove(self, fd: int, watch: int) -> None:
        """Stop watching. Raises OSError if the kernel has already dropped the watch."""
        _checked(_libc().inotify_rm_watch(fd, watch))


def parse(data: bytes) -> Iterator[Event]:
    """The events in what was read from the queue; the kernel never cuts one in two."""
    at = 0
    while at < len(data):
        watch, mask, _, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        yield Event(watch, mask, os.fsdecode(data[at : at + length].rstrip(b"\0")))
        at += length


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result

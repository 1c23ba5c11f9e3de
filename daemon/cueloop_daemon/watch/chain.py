"""Which folders must be watched so that some paths can come, go, be replaced and be reached through links without being missed.

For each path: its own folder (what is in it), that folder's parent (whether the folder is replaced), and all above (whether they
move). Where a folder is missing the nearest one above it stands in, so that its creation is seen. Never recursive.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from enum import IntEnum

from cueloop_daemon.watch.watcher import Wanted

_TOP = re.compile(r"/proc/self/fd/\d+|/\.vol/\d+/\d+|/")
"""Where climbing ends: `/`, or the root's own descriptor, which stands for a path that is too long."""
_DESCRIPTORS = ("/proc/self/fd/", "/.vol/")


class Level(IntEnum):
    """How much of a folder is watched; a higher level includes the lower ones."""

    SELF = 0
    ENTRIES = 1
    CONTENT = 2


Key = tuple[int, int]
"""Device and inode of a folder."""
Names = set[str] | None
"""Entries of a folder; None: all of them."""


@dataclass(slots=True)
class Spot:
    """A folder to be watched; `names` are the entries that matter."""

    path: str
    level: Level
    names: Names

    def concerns(self, name: str) -> bool:
        """Whether an event for the entry `name` of this folder may matter."""
        return self.names is None or name in self.names


def spots(wanted: Wanted) -> dict[Key, Spot]:
    """The folders to watch now, one for each folder however many paths lead to it."""
    names = _names_by_folder(wanted)
    for folder in tuple(names):
        # Where a link leads, things come and go without an event at the link.
        if not folder.startswith(_DESCRIPTORS) and (real := os.path.realpath(folder)) != folder:
            names[real] = _joined(names.get(real, set()), names[folder])
    found: dict[Key, Spot] = {}
    for folder, here in names.items():
        if (key := _folder_key(folder)) is not None:
            _add(found, key, folder, Level.CONTENT, here)
        _climb(found, folder)
    return found


def _names_by_folder(wanted: Wanted) -> dict[str, Names]:
    """The folders that hold what is wanted, and the entries that matter there; a file that is a link counts at both ends."""
    names: dict[str, Names] = dict.fromkeys(wanted.folders)
    for file in wanted.files:
        ends = (file, os.path.realpath(file)) if os.path.islink(file) else (file,)
        for folder, name in map(os.path.split, ends):
            names[folder] = _joined(names.get(folder, set()), {name})
    return names


def _climb(found: dict[Key, Spot], path: str) -> None:
    """Watch for `path` itself to come, go or be replaced, and for what is above it to move."""
    level = Level.ENTRIES
    while not _TOP.fullmatch(path):
        above, name = os.path.split(path)
        key = _folder_key(above)
        if key is not None:
            _add(found, key, above, level, {name} if level is Level.ENTRIES else set())
            level = Level.SELF
        path = above


def _add(found: dict[Key, Spot], key: Key, path: str, level: Level, names: Names) -> None:
    spot = found.setdefault(key, Spot(path, level, set()))
    spot.level = max(spot.level, level)
    spot.names = _joined(spot.names, names)


def _joined(some: Names, others: Names) -> Names:
    return None if some is None or others is None else some | others


def _folder_key(path: str) -> Key | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISDIR(status.st_mode) else None

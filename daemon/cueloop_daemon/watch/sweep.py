"""What the watched paths look like now, by stat alone: two equal looks mean that no change could be seen."""

from __future__ import annotations

import os
from collections.abc import Iterator

import anyio.to_thread

from cueloop_daemon.watch.watcher import Wanted

ENTRIES_LIMIT = 256
"""Of a folder with more entries only the folder itself is looked at: creations and removals show there, too."""

Look = tuple[tuple[str, tuple[int, ...]], ...]


def look(wanted: Wanted) -> Look:
    """Each path with device, inode, mode, size, mtime and ctime (links followed), or with the error number that stands for it."""
    return tuple(sorted((path, _stat(path)) for path in {*wanted.files, *_entries(wanted.folders)}))


async def look_in_thread(wanted: Wanted) -> Look:
    """`look`, without stopping the event loop where a file server is lost; a cancelled caller does not wait for it."""
    return await anyio.to_thread.run_sync(look, wanted, abandon_on_cancel=True)


def _entries(folders: frozenset[str]) -> Iterator[str]:
    for folder in folders:
        yield folder
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        if len(names) <= ENTRIES_LIMIT:
            yield from (f"{folder}/{name}" for name in names)


def _stat(path: str) -> tuple[int, ...]:
    try:
        status = os.stat(path)
    except OSError as exc:
        return (exc.errno or 0,)
    return (status.st_dev, status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)

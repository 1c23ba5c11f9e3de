"""Where a corrupt session file goes: `.cueloop/cache/session-quarantine/`, shared with the Rust tool. Standard library only."""

from __future__ import annotations

import errno
import os
from datetime import UTC, datetime, timedelta

from cueloop_daemon.store.exchange import ATTEMPTS, place_new
from cueloop_daemon.store.folder import CACHE, private_folder, shown_path
from cueloop_daemon.store.system import System
from cueloop_protocol.roots import Root

FOLDER = (*CACHE, "session-quarantine")


def quarantine_name(when: datetime) -> str:
    """`session.jsonc.corrupt.<UTC>`: RFC 3339 with nine fractional digits, ':' and '.' as '-'."""
    utc = when.astimezone(UTC)
    return f"session.jsonc.corrupt.{utc:%Y-%m-%dT%H-%M-%S}-{utc.microsecond:06d}000Z"


def move_to_quarantine(system: System, root: Root, uid: int, source: str, when: datetime) -> str:
    """Rename `source` into the quarantine, durably there; the new path as people see it.

    A name that is taken is passed over by a microsecond, never replaced. Raises `OSError` or `NotWritable`, and then nothing has
    moved.
    """
    folder = root.join(*FOLDER)
    private_folder(system, folder, shown_path(root, *FOLDER), uid)
    for later in range(ATTEMPTS):
        name = quarantine_name(when + timedelta(microseconds=later))
        if place_new(system, source, f"{folder}/{name}"):
            try:
                system.fsync_folder(folder)
            except BaseException:
                place_new(system, f"{folder}/{name}", source)
                raise
            return shown_path(root, *FOLDER, name)
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), folder)

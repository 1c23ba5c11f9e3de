"""Where a corrupt session file goes: `.cueloop/cache/session-quarantine/`, shared with the Rust tool. Standard library only."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from cueloop_protocol.roots import Root

from cueloop_daemon.store.exchange import ATTEMPTS, place_new
from cueloop_daemon.store.folder import CACHE, private_folder, shown_path
from cueloop_daemon.store.system import System

FOLDER = (*CACHE, "session-quarantine")


def quarantine_name(when: datetime) -> str:
    """`session.jsonc.corrupt.<UTC>`: RFC 3339 with nine fractional digits, ':' and '.' as '-'."""
    utc = when.astimezone(UTC)
    return f"session.jsonc.corrupt.{utc:%Y-%m-%dT%H-%M-%S}-{utc.microsecond:06d}000Z"


def move_to_quarantine(system: System, root: Root, uid: int, source: str, when: datetime) -> str:
    """Rename `source` into the quarantine, durably there; the new path as people see it.

    A name that is taken is passed over by a microsecond, never replaced. Raises `OSError` or `NotWritable`.
    """
    folder = root.join(*FOLDER)
    private_folder(system, folder, shown_path(root, *FOLDER), uid)
    for later in range(ATTEMPTS):
        name = quarantine_name(when + timedelta(microseconds=later))
        if place_new(system, source, f"{folder}/{name}"):
            system.fsync_folder(folder)
            return shown_path(root, *FOLDER, name)
    raise FileExistsError(f"{ATTEMPTS} names from {quarantine_name(when)} on are taken in {os.path.basename(folder)}")

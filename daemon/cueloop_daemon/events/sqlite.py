"""The event log's own marks and tables, and the word left behind when its epoch ends without it."""

from __future__ import annotations

import contextlib
import os

APPLICATION_ID = 0x4375654C
"""Marks the file as ours ("CueL"); a database of something else is not mistaken for a log."""

VERSION = 2
"""`user_version` of what we write. A file with a higher one is left alone."""

SCHEMA = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID",
    "CREATE TABLE announced (audience TEXT PRIMARY KEY, state BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE events (seq INTEGER PRIMARY KEY, epoch TEXT NOT NULL, method TEXT NOT NULL, kind TEXT, run_id TEXT,"
    " audience TEXT, body BLOB NOT NULL)",
    "CREATE TABLE marks (run_id TEXT NOT NULL, source TEXT NOT NULL, position INTEGER NOT NULL,"
    " PRIMARY KEY (run_id, source)) WITHOUT ROWID",
)

SCHEMA_1 = SCHEMA[:3]
"""What version 1 laid out; it had no marks."""

OVER = "-over"
"""Ends the name of the file that `mark_over` leaves."""


def mark_over(path: str) -> None:
    """Leave word that the epoch of this file has ended although the file does not say so: events went on without it.

    An empty file needs no space. Where even that is refused, removing the write-ahead log says the same. Where nothing can be
    written or removed, nothing can be said. Never raises.
    """
    try:
        os.close(os.open(path + OVER, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(path + "-wal")

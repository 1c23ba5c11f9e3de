"""What a newer version has written is touched by no older one: that does not even start, and says what the ways out are."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator

from cueloop_daemon.events.sqlite import APPLICATION_ID as EVENTS_ID
from cueloop_daemon.events.sqlite import VERSION as EVENTS_VERSION
from cueloop_daemon.place import database_path
from cueloop_daemon.runs.schema import APPLICATION_ID as RUNS_ID
from cueloop_daemon.runs.schema import VERSION as RUNS_VERSION
from cueloop_daemon.store.sqlite import DbError, DbTooNew, connect, probe
from cueloop_protocol.roots import Root

KNOWN = (("events.db", EVENTS_ID, EVENTS_VERSION), ("runs.db", RUNS_ID, RUNS_VERSION))
"""Our databases: name, application id, the newest format that is known here."""


def newer_databases(root: Root, home: str) -> Iterator[tuple[str, str]]:
    """Path and reason of each database that a newer version has written. Looks, and writes nothing; what cannot be looked at is
    not newer: opening it will tell.
    """
    for name, application_id, newest in KNOWN:
        path = database_path(root, home, name)
        try:
            with contextlib.suppress(OSError, sqlite3.Error):
                probe(path, connect, application_id, newest, name)
        except DbTooNew as exc:
            yield path, str(exc)
        except DbError:
            pass

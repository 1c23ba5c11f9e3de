"""The databases of a daemon that is not there: read from a copy, because SQLite writes beside what it reads."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Mapping
from dataclasses import field

from cueloop_daemon.runs.schema import APPLICATION_ID, SCHEMA, VERSION
from cueloop_daemon.store.sqlite import READING, DbDamaged, DbTooNew, connect, pragma, probe, size, translated
from cueloop_protocol.values import dataclass

COPY_LIMIT = 256 * 1024 * 1024
"""Bytes of a database that is copied to be looked into."""


Place = tuple[str, str, int, int, str]


@dataclass(frozen=True, slots=True)
class Kept:
    """A database that is whole.

    `runs`: ids → whether the run is open. `conversations`: task, session, iteration, phase and runner → `chosen`, `reported` or `gone`.
    """

    runs: Mapping[str, bool] = field(default_factory=dict)
    conversations: Mapping[Place, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Damaged:
    """It cannot be used; the next daemon moves it aside."""

    why: str


@dataclass(frozen=True, slots=True)
class Newer:
    """A newer version wrote it."""

    why: str


Record = Kept | Damaged | Newer


def read_runs(path: str) -> Record | None:
    """The record of runs; None where there is none, or where it cannot be looked into now."""
    return _look(path, APPLICATION_ID, VERSION, with_runs=True)


def read_events(path: str) -> Record | None:
    """The event log, in the same way."""
    from cueloop_daemon.events.sqlite import APPLICATION_ID as EVENTS_ID
    from cueloop_daemon.events.sqlite import VERSION as EVENTS_VERSION

    return _look(path, EVENTS_ID, EVENTS_VERSION, with_runs=False)


def _look(path: str, application_id: int, version: int, *, with_runs: bool) -> Record | None:
    if not os.path.lexists(path):
        return None
    try:
        if size(path) + size(f"{path}-wal") > COPY_LIMIT:
            return None
        with tempfile.TemporaryDirectory(prefix="cueloop-doctor-") as folder:
            copy = f"{folder}/copy.db"
            for ending in ("", "-wal"):
                with contextlib.suppress(FileNotFoundError):
                    shutil.copyfile(path + ending, copy + ending, follow_symlinks=False)
            return _read(copy, application_id, version, with_runs=with_runs)
    except OSError:  # no room for a copy, or no access: then this is not what is wrong
        return None


def _read(path: str, application_id: int, version: int, *, with_runs: bool) -> Record:
    try:
        probe(path, connect, application_id, version, "a database of the daemon's")
        with translated(), contextlib.closing(connect(path, READING)) as db:
            said = str(db.execute("PRAGMA quick_check(1)").fetchone()[0])
            if said != "ok":
                return Damaged(said.splitlines()[0])
            if not with_runs:
                return Kept()
            if pragma(db, "user_version") == VERSION and _schema(db) != SCHEMA:
                return Damaged("its tables are not those of a record of runs")
            runs = {run_id: state == "open" for run_id, state in db.execute("SELECT run_id, state FROM runs")}
            talks = db.execute("SELECT task_id, session_id, iteration, phase, runner, state FROM conversations")
            return Kept(runs, {(*place,): state for *place, state in talks})
    except DbTooNew as exc:
        return Newer(str(exc))
    except (DbDamaged, sqlite3.Error) as exc:
        return Damaged(str(exc))


def _schema(db: sqlite3.Connection) -> tuple[str, ...]:
    return tuple(sql for (sql,) in db.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid"))

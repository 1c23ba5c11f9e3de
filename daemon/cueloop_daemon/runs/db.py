"""`runs.db`: opening it, and reading and writing it whole or not at all. Synchronous, from any thread, one caller at a time."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable
from typing import TypeVar

from cueloop_daemon.events.model import LONGEST_PATH
from cueloop_daemon.runs.schema import APPLICATION_ID, SCHEMA, VERSION
from cueloop_daemon.store.sqlite import (
    WRITING,
    Connect,
    DbDamaged,
    DbUnwritable,
    connect,
    create_private,
    identity,
    pragma,
    probe,
    remove,
    set_aside,
    transaction,
    translated,
)
from cueloop_protocol.values import dataclass

T = TypeVar("T")

AMPLE = 4 * 1024 * 1024
"""Bytes that must be free before there is a ballast."""

BALLAST = 1024 * 1024
"""Bytes of a file that is given up so that the end of a run can be written on a full disk."""

_SETTINGS = (
    "trusted_schema=OFF",  # the file lies in a repository, and anybody may have made that
    "cell_size_check=ON",
    "locking_mode=EXCLUSIVE",  # one owner; a second daemon waits until this one is gone
    "journal_mode=WAL",
    "synchronous=FULL",
    "checkpoint_fullfsync=ON",
    "journal_size_limit=4194304",
)


@dataclass(frozen=True, slots=True)
class RunsPlace:
    """Where the file is. `make_folder` makes the folder it lies in, if it is missing, or raises OSError."""

    path: str
    make_folder: Callable[[], None]
    connect: Connect = connect


@dataclass(frozen=True, slots=True)
class Opening:
    """What was found. `generation` rises with each opening; `moved_to` is where a damaged file lies now."""

    generation: int
    moved_to: str | None


class RunsDb:
    """An open `runs.db`. Raises DbUnwritable where the world is in the way, DbDamaged where the file is not ours any more."""

    def __init__(self, db: sqlite3.Connection, path: str, opening: Opening) -> None:
        self._db = db
        self._path = path
        self._identities = self._look()
        self._lock = threading.Lock()
        self.opening = opening

    def read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """What `query` finds. Takes well under a millisecond, but waits for a commit that is under way."""
        with self._lock, translated(with_values=False):
            return query(self._db)

    def write(self, change: Callable[[sqlite3.Connection], T], *, durable: bool = True) -> T:
        """One transaction; on the medium when it returns. Not `durable`: only a power cut can take it back.

        What `change` raises comes out as it is, but for SQLite's own errors; nothing was changed then.
        """
        with self._lock, translated(with_values=False):
            self._check_place()
            if not durable:
                self._db.execute("PRAGMA synchronous=NORMAL")
            try:
                with transaction(self._db):
                    return change(self._db)
            finally:
                if not durable:
                    self._db.execute("PRAGMA synchronous=FULL")

    def keep_ballast(self) -> None:
        """Make the ballast, if there is none and there is ample room for it: a small disk is for others. Never raises."""
        with contextlib.suppress(OSError):
            if os.path.lexists(self._ballast) or _free(os.path.dirname(self._ballast)) < AMPLE:
                return
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            fd = os.open(self._ballast, flags, 0o600)
            try:
                with open(fd, "wb") as file:
                    file.write(bytes(BALLAST))
            except OSError:
                remove(self._ballast)  # the room was taken meanwhile

    def drop_ballast(self) -> None:
        """Give the ballast up. Never raises."""
        remove(self._ballast)

    def close(self) -> None:
        """Let go of the file. Never raises."""
        with self._lock, contextlib.suppress(sqlite3.Error):
            self._db.close()

    def set_aside(self) -> str | None:
        """Move the file away, byte for byte, then let go of it. The new name, or None if it was gone. DbUnwritable."""
        try:
            with translated():
                return set_aside(self._path)
        finally:
            self.close()

    @property
    def _ballast(self) -> str:
        return f"{self._path}.ballast"

    def _look(self) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
        return identity(self._path), identity(self._path + "-wal")

    def _check_place(self) -> None:
        """A file that was deleted or replaced under us would swallow every step without a word."""
        if self._look() != self._identities or self._identities[0] is None:
            raise DbDamaged("it was removed or replaced while it was in use")


def _free(folder: str) -> int:
    """Bytes that its disk has for us. Raises OSError."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def open_runs(place: RunsPlace) -> RunsDb:
    """The record at `place`, made if there is none; its generation is one more than ever before.

    A damaged file is moved aside. DbTooNew: untouched, not even read further. DbUnwritable: cannot be opened or made now, also
    while a daemon that is going has it.
    """
    with translated():
        place.make_folder()
        is_long = len(os.fsencode(os.path.realpath(place.path))) > LONGEST_PATH
    if is_long:
        raise DbUnwritable("its path is too long for SQLite")
    try:
        return _open(place, None)
    except DbDamaged as exc:
        moved_to = exc.moved_to
    try:
        return _open(place, moved_to)
    except DbDamaged as exc:
        raise DbUnwritable(str(exc)) from exc


def _open(place: RunsPlace, moved_to: str | None) -> RunsDb:
    with contextlib.ExitStack() as stack:
        try:
            with translated():
                probe(place.path, place.connect, APPLICATION_ID, VERSION, "a record of runs")
                create_private(place.path)
                db = stack.enter_context(contextlib.closing(place.connect(place.path, WRITING)))
                for setting in _SETTINGS:
                    db.execute(f"PRAGMA {setting}").fetchall()
                with transaction(db):
                    _lay_out(db)
                    generation = _raise_generation(db)
                opened = RunsDb(db, place.path, Opening(generation, moved_to))
        except DbDamaged as exc:
            with translated():
                exc.moved_to = set_aside(place.path)
            raise
        stack.pop_all()
        return opened


def _lay_out(db: sqlite3.Connection) -> None:
    """Make the tables. DbDamaged if what is there is not ours to the letter."""
    found = tuple(sql for (sql,) in db.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid"))
    if not found and pragma(db, "user_version") == 0:
        for statement in SCHEMA:
            db.execute(statement)
        db.execute(f"PRAGMA application_id={APPLICATION_ID}")
        db.execute(f"PRAGMA user_version={VERSION}")
    elif found != SCHEMA or pragma(db, "user_version") != VERSION:
        raise DbDamaged("its tables are not those of a record of runs")


def _raise_generation(db: sqlite3.Connection) -> int:
    kept = db.execute("SELECT value FROM meta WHERE key = 'generation'").fetchone()
    generation = (int(kept[0]) if kept else 0) + 1
    db.execute("REPLACE INTO meta VALUES ('generation', ?)", (generation,))
    return generation

"""Opening the log: is it ours, is it whole, and does it still have the end that was told to people? If not, a new epoch."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
from collections.abc import Callable
from dataclasses import replace

from cueloop_daemon.events.log import EventLog, Opened
from cueloop_daemon.events.model import LONGEST_PATH, Place
from cueloop_daemon.events.revisions import BLOCK
from cueloop_daemon.events.sqlite import APPLICATION_ID, OVER, SCHEMA, SCHEMA_1, VERSION
from cueloop_daemon.store.sqlite import (
    WRITING,
    DbDamaged,
    DbUnwritable,
    create_private,
    pragma,
    probe,
    remove,
    set_aside,
    size,
    transaction,
    translated,
)
from cueloop_protocol.cursor import Cursor
from cueloop_protocol.values import dataclass

_logger = logging.getLogger(__name__)

LARGEST = 2**53
"""Numbers from here on are not ours: no JSON client could tell them apart."""

_SETTINGS = (
    "trusted_schema=OFF",  # the file lies in a repository, and anybody may have made that
    "cell_size_check=ON",
    "locking_mode=EXCLUSIVE",  # one owner; and no shared-memory file, whose truncation would end us by SIGBUS
    "journal_mode=WAL",
    "synchronous=FULL",
    "checkpoint_fullfsync=ON",
    "journal_size_limit=4194304",
)


@dataclass(frozen=True, slots=True)
class Before:
    """What this process has told already: the new log goes on after it, in a new epoch."""

    seq: int
    revision: int


@dataclass(frozen=True, slots=True)
class _Kept:
    """What the file says of itself."""

    epoch: str
    boot_id: str
    clean: bool
    base: int
    last_seq: int
    revision: int


def open_log(place: Place, before: Before | None = None) -> EventLog:
    """The log at `place`, made if there is none.

    The epoch is kept if the file is whole and has everything that was told from it: it was closed cleanly, or this is still the
    same boot (a killed process loses nothing that it handed to the kernel). Otherwise it is new, and so it is with `before`.
    A damaged file is moved aside. DbTooNew: untouched. DbUnwritable: cannot be opened or made now.
    """
    with translated():
        place.make_folder()
    if len(os.fsencode(os.path.realpath(place.path))) > LONGEST_PATH:
        raise DbUnwritable("its path is too long for SQLite")
    try:
        return _open(place, before, None)
    except DbDamaged as exc:
        _logger.warning("event log damaged path=%s reason=%s moved_to=%s", place.path, exc, exc.moved_to)
        moved_to = exc.moved_to
    try:
        return _open(place, before, moved_to)
    except DbDamaged as exc:
        raise DbUnwritable(str(exc)) from exc


def _open(place: Place, before: Before | None, moved_to: str | None) -> EventLog:
    """DbDamaged: the file was moved aside as it was found, before anything that could write to it was closed.

    No setting that writes is made before the file is known to be whole; `auto_vacuum` is one that does.
    """
    with contextlib.ExitStack() as stack:
        try:
            with translated():
                has_wal = size(place.path + "-wal") > 0
                probe(place.path, place.connect, APPLICATION_ID, VERSION, "an event log")
                can_go_on = before is None and not os.path.lexists(place.path + OVER)
                is_new = create_private(place.path)
                db = stack.enter_context(contextlib.closing(place.connect(place.path, WRITING)))
                for setting in ("auto_vacuum=INCREMENTAL", *_SETTINGS) if is_new else _SETTINGS:
                    db.execute(f"PRAGMA {setting}").fetchall()
                opened = _begin(db, place, before or Before(0, 0), lambda kept: can_go_on and _has_its_end(kept, place, has_wal))
                log = EventLog(db, place.path, place.limit, replace(opened, moved_to=moved_to))
                _tidy(db, place.path)
        except DbDamaged as exc:
            with translated():
                exc.moved_to = set_aside(place.path)
            raise
        stack.pop_all()
        return log


def _begin(db: sqlite3.Connection, place: Place, before: Before, goes_on: Callable[[_Kept], bool]) -> Opened:
    """Take the file over. What this writes is on disk when it returns: no power cut can bring the old clean end back."""
    with transaction(db):
        kept = _kept(db) if _has_schema(db) else _Kept("", "", False, 0, 0, 0)
        last_seq = max(kept.last_seq, before.seq)
        revision = max(kept.revision, before.revision)
        epoch, base = (kept.epoch, kept.base) if goes_on(kept) else (place.new_epoch(), last_seq)
        written = {"epoch": epoch, "boot_id": place.boot_id, "clean": 0, "base": base, "revision": revision + BLOCK}
        db.executemany("REPLACE INTO meta VALUES (?, ?)", written.items())
        announced = dict(db.execute("SELECT audience, state FROM announced"))
        marks = {(run_id, source): position for run_id, source, position in db.execute("SELECT * FROM marks")}
    return Opened(epoch, base, last_seq, revision, announced, marks)


def _tidy(db: sqlite3.Connection, path: str) -> None:
    """The log is ours and its epoch is written: quicker commits from here on, and no leftovers that speak of the past."""
    db.execute("PRAGMA synchronous=NORMAL")
    remove(path + OVER)


def _has_schema(db: sqlite3.Connection) -> bool:
    """False: it was empty and has been laid out. DbDamaged if what is there is not ours to the letter."""
    found = [sql for (sql,) in db.execute("SELECT sql FROM sqlite_master ORDER BY rowid")]
    if not found and pragma(db, "user_version") == 0:
        for statement in SCHEMA:
            db.execute(statement)
        db.execute(f"PRAGMA application_id={APPLICATION_ID}")
        db.execute(f"PRAGMA user_version={VERSION}")
        return False
    if tuple(found) == SCHEMA_1 and pragma(db, "user_version") == 1:
        db.execute(SCHEMA[3])
        db.execute(f"PRAGMA user_version={VERSION}")
        return True
    if tuple(found) != SCHEMA or pragma(db, "user_version") != VERSION:
        raise DbDamaged("its tables are not those of a log")
    return True


def _kept(db: sqlite3.Connection) -> _Kept:
    meta = dict(db.execute("SELECT key, value FROM meta"))
    numbers = [meta.get("base"), meta.get("revision"), db.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()[0]]
    base, revision, last_row = (number for number in numbers if isinstance(number, int) and 0 <= number < LARGEST)
    epoch, boot_id = meta.get("epoch"), meta.get("boot_id")
    if not isinstance(epoch, str) or not isinstance(boot_id, str):
        raise DbDamaged("it does not say which epoch it is")
    last_seq = Cursor(epoch, max(base, last_row)).seq
    return _Kept(epoch, boot_id, meta.get("clean") == 1, base, last_seq, revision)


def _has_its_end(kept: _Kept, place: Place, has_wal: bool) -> bool:
    """An open log always has a write-ahead log; without one, and without a clean end, somebody removed it."""
    return kept.clean or (has_wal and place.boot_id != "" and kept.boot_id == place.boot_id)

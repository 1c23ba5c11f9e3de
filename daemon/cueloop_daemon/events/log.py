"""The event log in SQLite. Synchronous; one caller at a time, from any thread (`journal` has the lane)."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from collections.abc import Mapping
from typing import Final, cast, get_args

from cueloop_daemon.events.model import Chunk, Filter, Group, Method, Row
from cueloop_daemon.store.sqlite import DbDamaged, DbError, identity, pragma, set_aside, transaction, translated
from cueloop_protocol.values import dataclass

_logger = logging.getLogger(__name__)

CHUNK_ROWS = 128
CHUNK_BYTES = 128 * 1024
"""A chunk ends at either. A thread reads one in well under a millisecond; nothing is kept of it for one who cannot take it."""

_METHODS: Final = frozenset(get_args(Method))
_INSERT = "INSERT OR REPLACE INTO events (seq, epoch, method, kind, run_id, audience, body) VALUES (?, ?, ?, ?, ?, ?, ?)"
_SELECT = "SELECT seq, method, kind, run_id, audience, body FROM events WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?"
_ONE_CHUNK_OF = 64
"""Retention removes this part of the rows at a time, so that no commit waits for a long delete."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What a log was when it was opened.

    `base` is the seq before the first of this epoch, `revision` the floor, `moved_to` where a damaged predecessor lies now.
    """

    epoch: str
    base: int
    last_seq: int
    revision: int
    announced: Mapping[str, bytes]
    marks: Mapping[tuple[str, str], int]
    moved_to: str | None = None


class EventLog:
    """An open log. Made by `opening.open_log`. Raises `DbDamaged` and `DbUnwritable`; after the first it must be set aside."""

    def __init__(self, db: sqlite3.Connection, path: str, limit: int, opened: Opened) -> None:
        self._db = db
        self._path = path
        self._identity = identity(path)
        self._wal_identity = identity(path + "-wal")
        self._doomed: DbDamaged | None = None
        self.limit = limit
        self.opened = opened
        self.last_seq = opened.last_seq
        self.oldest, self.bytes = self._measure()

    def append(self, group: Group) -> None:
        """Commit the group: when this returns, a killed process cannot lose it. On an error nothing of it was committed."""
        if self._doomed is not None:
            raise self._doomed
        with translated():
            self._check_place()
            with transaction(self._db):
                self._db.executemany(_INSERT, [(row.seq, self.opened.epoch, *row[1:]) for row in group.rows])
                self._keep(group)
        if group.rows:
            self.last_seq = group.rows[-1].seq
        self._retain()

    def read(self, after: int, upto: int, wanted: Filter) -> Chunk | None:
        """The rows after `after`, at most to `upto` or to the end of a chunk. None: the first of them is not there any more."""
        rows: list[Row] = []
        reached = after
        size = 0
        try:
            with translated(), contextlib.closing(self._db.execute(_SELECT, (after, upto, CHUNK_ROWS))) as found:
                for row in map(_row, found):
                    if row.seq != reached + 1 or (size and size + len(row.params) > CHUNK_BYTES):
                        break
                    reached = row.seq
                    size += len(row.params)
                    if wanted.wants(row):
                        rows.append(row)
        except DbDamaged as exc:
            self._doomed = exc  # said again by the next append, so that the file is replaced
            raise
        return Chunk(tuple(rows), reached) if reached > after else None

    def close(self, revision: int) -> None:
        """The clean end: all is on disk, in one file that says so. Errors are logged; a next boot then takes a new epoch."""
        try:
            with translated():
                self._check_place()
                self._db.execute("PRAGMA synchronous=FULL")
                with transaction(self._db):
                    self._db.executemany("REPLACE INTO meta VALUES (?, ?)", (("clean", 1), ("revision", revision)))
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except DbError as exc:
            _logger.warning("event log not closed cleanly path=%s reason=%s", self._path, exc)
        self.abandon()

    def abandon(self) -> None:
        """Let go of the file as it is. Never raises."""
        with contextlib.suppress(sqlite3.Error):
            self._db.close()

    def set_aside(self) -> str | None:
        """Move the damaged file away, byte for byte, then let go of it. The new name, or None if it was gone. DbUnwritable."""
        try:
            with translated():
                return set_aside(self._path)
        finally:
            self.abandon()

    def _keep(self, group: Group) -> None:
        for audience, state in group.announced:
            if state is None:
                self._db.execute("DELETE FROM announced WHERE audience = ?", (audience,))
            else:
                self._db.execute("REPLACE INTO announced VALUES (?, ?)", (audience, state))
        self._db.executemany("REPLACE INTO marks VALUES (?, ?, ?)", group.marks)
        self._db.executemany("DELETE FROM marks WHERE run_id = ?", [(run_id,) for run_id in group.forgotten])
        if group.revision is not None:
            self._db.execute("REPLACE INTO meta VALUES ('revision', ?)", (group.revision,))

    def _check_place(self) -> None:
        """A file that was deleted or replaced under us would swallow every event without a word."""
        if identity(self._path) != self._identity or self._identity is None:
            raise DbDamaged("it was removed or replaced while it was in use")
        if identity(self._path + "-wal") != self._wal_identity:
            raise DbDamaged("its write-ahead log was removed or replaced while it was in use")

    def _retain(self) -> None:
        """Remove the oldest rows while the file holds more than the limit. What goes wrong here never unsays a commit."""
        try:
            self.oldest, self.bytes = self._measure()
            with translated():
                while self.bytes > self.limit and self.oldest < self.last_seq:
                    upto = self.oldest + max(0, (self.last_seq - self.oldest) // _ONE_CHUNK_OF)
                    with transaction(self._db):
                        self._db.execute("DELETE FROM events WHERE seq <= ?", (upto,))
                    self.oldest, self.bytes = self._measure()
                self._give_back()
        except DbDamaged as exc:
            self._doomed = exc
        except DbError as exc:
            _logger.warning("event log cannot be shortened path=%s reason=%s", self._path, exc)

    def _give_back(self) -> None:
        """Free pages are used again; only after the limit was lowered are they many."""
        free, size = pragma(self._db, "freelist_count"), pragma(self._db, "page_size")
        if free * size > max(self.limit // 4, CHUNK_BYTES * 8):
            # A script, because `execute` takes one step of a statement without columns, and each step frees one page.
            self._db.executescript(f"PRAGMA incremental_vacuum({CHUNK_BYTES * 8 // size})")

    def _measure(self) -> tuple[int, int]:
        """(seq of the oldest row, bytes in use). Both are looked up, not summed: a page count and one step down a tree."""
        with translated():
            first = self._db.execute("SELECT min(seq) FROM events").fetchone()[0]
            used = (pragma(self._db, "page_count") - pragma(self._db, "freelist_count")) * pragma(self._db, "page_size")
        return (first if first is not None else self.last_seq + 1), used


def _row(record: tuple[object, ...]) -> Row:
    """A row as it was written. ValueError if somebody else wrote it."""
    seq, method, *texts, body = record
    is_ours = isinstance(seq, int) and method in _METHODS and isinstance(body, bytes) and body[:1] == b"{" and body[-1:] == b"}"
    if not is_ours or not all(text is None or isinstance(text, str) for text in texts):
        raise ValueError(f"row {seq!r}")
    return Row(*cast("tuple[int, Method, str | None, str | None, str | None, bytes]", record))

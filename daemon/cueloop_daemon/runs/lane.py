"""The way from the event loop to `runs.db`: one thread's work at a time, retried while the medium takes nothing."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import anyio
from anyio import CapacityLimiter, to_thread

from cueloop_daemon.runs.batches import write
from cueloop_daemon.runs.db import RunsDb, RunsPlace, open_runs
from cueloop_daemon.runs.records import Batch
from cueloop_daemon.runs.store import Unrecordable, Unwritable
from cueloop_daemon.store.sqlite import DbDamaged, DbError, DbUnwritable

logger = logging.getLogger(__name__)
T = TypeVar("T")

AGAIN = 5.0
"""Seconds between two attempts to write on a medium that takes nothing."""


class DbLane:
    """Once begun, a change is waited for, even if the task is cancelled: no commit is half known.

    While there is no file, everything raises DbUnwritable, or DbTooNew. A file that turns out to be damaged, or was removed, is
    moved aside at once, and the next `open` begins a new one.
    """

    def __init__(self, place: RunsPlace, trouble: Callable[[str], None] = lambda reason: None) -> None:
        """`trouble(reason)` is called each time that the medium refuses a change."""
        self.trouble = trouble
        self._place = place
        self._db: RunsDb | None = None
        self._why: DbError = DbUnwritable("it is not open yet")
        self._limiter = CapacityLimiter(1)

    @property
    def generation(self) -> int:
        """How often the file was opened; 0 without one."""
        return 0 if self._db is None else self._db.opening.generation

    @property
    def is_open(self) -> bool:
        """Whether there is a file."""
        return self._db is not None

    async def open(self) -> str | None:
        """Open the file unless it is; where a damaged one lies now, if one was found. Raises DbUnwritable, DbTooNew."""
        if self._db is not None:
            return None
        try:
            self._db = await to_thread.run_sync(open_runs, self._place, limiter=self._limiter)
        except DbError as exc:
            self._why = exc
            raise
        return self._db.opening.moved_to

    async def read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """What `query` finds. Raises DbError."""
        return await self._in_lane(lambda db: db.read(query))

    async def once(self, change: Callable[[sqlite3.Connection], T], *, durable: bool = True) -> T:
        """One transaction. Raises DbError, and what `change` raises; nothing was changed then."""
        return await self._in_lane(lambda db: db.write(change, durable=durable))

    def now(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """`read` from any thread, waiting for whatever is under way: blocking. Raises DbError."""
        if self._db is None:
            raise self._why
        return self._db.read(query)

    def put(self, change: Callable[[sqlite3.Connection], T]) -> T:
        """`once` from a worker thread: blocking. Raises DbError."""
        if self._db is None:
            raise self._why
        return self._db.write(change)

    async def _in_lane(self, use: Callable[[RunsDb], T]) -> T:
        db = self._db
        if db is None:
            raise self._why
        try:
            return await to_thread.run_sync(use, db, limiter=self._limiter)
        except DbDamaged as exc:
            await self._lose(db, exc)
            raise

    async def _lose(self, db: RunsDb, why: DbDamaged) -> None:
        if self._db is not db:
            return
        self._db, self._why = None, DbUnwritable(str(why))
        logger.error("runs_db_lost reason=%s", why)
        try:
            await to_thread.run_sync(db.set_aside, limiter=self._limiter)
        except DbError as exc:
            logger.error("runs_db_not_moved_aside reason=%s", exc)

    async def write(self, change: Callable[[sqlite3.Connection], T]) -> T:
        """One transaction, tried again while the medium takes nothing. Raises DbDamaged, and what `change` raises."""
        while True:
            try:
                return await self.once(change)
            except DbUnwritable as exc:
                self.trouble(str(exc))
            await anyio.sleep(AGAIN)

    async def last_words(self, change: Callable[[sqlite3.Connection], T]) -> T:
        """A change that must find room on a full disk: the ballast is given up for it. Raises DbError."""
        try:
            return await self.once(change)
        except DbUnwritable:
            await self._in_lane(RunsDb.drop_ballast)
            return await self.once(change)

    async def keep_ballast(self) -> None:
        """Make the ballast again. Never raises."""
        with suppress(DbError):
            await self._in_lane(RunsDb.keep_ballast)

    async def close(self) -> None:
        """Let go of the file. Never raises."""
        if self._db is not None:
            await to_thread.run_sync(self._db.close, limiter=self._limiter)


class RunStore:
    """Where the journal of one run writes: see `journal.Store`."""

    def __init__(self, lane: DbLane, run_id: str) -> None:
        self._lane = lane
        self._run_id = run_id

    async def commit(self, batch: Batch) -> None:
        """See `journal.Store`. The end of a run finds room on a full disk."""
        commit = self._lane.once if batch.over is None else self._lane.last_words
        try:
            await commit(lambda db: write(db, self._run_id, batch))
        except DbUnwritable as exc:
            raise Unwritable(str(exc)) from exc
        except DbDamaged as exc:
            raise Unrecordable(str(exc)) from exc
        except LookupError as exc:
            raise Unrecordable("the run is over by its record") from exc

"""The way from the event loop to `runs.db`: one thread's work at a time, retried while the medium takes nothing."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from typing import TypeVar

import anyio
from anyio import CapacityLimiter, to_thread

from cueloop_daemon.runs.batches import write
from cueloop_daemon.runs.db import RunsDb
from cueloop_daemon.runs.journal import Unrecordable, Unwritable
from cueloop_daemon.runs.records import Batch
from cueloop_daemon.store.sqlite import DbDamaged, DbUnwritable

logger = logging.getLogger(__name__)
T = TypeVar("T")

AGAIN = 5.0
"""Seconds between two attempts to write on a medium that takes nothing."""


class DbLane:
    """Once begun, a change is waited for, even if the task is cancelled: no commit is half known."""

    def __init__(self, db: RunsDb, trouble: Callable[[str], None] = lambda reason: None) -> None:
        """`trouble(reason)` is called each time that the medium refuses a change."""
        self.db = db
        self.trouble = trouble
        self._limiter = CapacityLimiter(1)

    async def read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """What `query` finds. Raises DbError."""
        return await to_thread.run_sync(self.db.read, query, limiter=self._limiter)

    async def once(self, change: Callable[[sqlite3.Connection], T], *, durable: bool = True) -> T:
        """One transaction. Raises DbError, and what `change` raises; nothing was changed then."""
        return await to_thread.run_sync(lambda: self.db.write(change, durable=durable), limiter=self._limiter)

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
            await to_thread.run_sync(self.db.drop_ballast, limiter=self._limiter)
            return await self.once(change)

    async def keep_ballast(self) -> None:
        """Make the ballast again. Never raises."""
        await to_thread.run_sync(self.db.keep_ballast, limiter=self._limiter)

    async def close(self) -> None:
        """Let go of the file."""
        await to_thread.run_sync(self.db.close, limiter=self._limiter)


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

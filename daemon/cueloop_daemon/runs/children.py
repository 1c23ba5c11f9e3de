"""The run's children as its record lists them: which there were, how much they wrote, and the link that notes it."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial

from cueloop_daemon.runs.lane import DbLane
from cueloop_daemon.runs.types import Exited, Grown, Link, LockHeld, LockMade, NotStarted, Order, Started
from cueloop_daemon.store.sqlite import DbError
from cueloop_protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class Child:
    """One child. Sizes are None while it has not ended, as far as this record knows."""

    number: int
    out: int | None
    err: int | None


def children(db: sqlite3.Connection, run_id: str) -> tuple[Child, ...]:
    """In the order in which they were started."""
    found = db.execute("SELECT number, out, err FROM children WHERE run_id = ? ORDER BY number", (run_id,))
    return tuple(Child(*row) for row in found)


def _began(db: sqlite3.Connection, run_id: str, order: Order) -> None:
    db.execute(
        "INSERT INTO children (run_id, number, kind) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", (run_id, order.number, order.kind)
    )


def _ended(db: sqlite3.Connection, run_id: str, number: int, end: Exited) -> None:
    db.execute(
        "UPDATE children SET out = ?, err = ?, code = ?, signal = ?, cause = ? WHERE run_id = ? AND number = ?",
        (end.out, end.err, end.code, end.signal, end.cause, run_id, number),
    )


class NotingLink:
    """A link that notes children in the record. Nothing of a child is told before all that was said before its start is."""

    def __init__(self, link: Link, lane: DbLane, run_id: str, told: Callable[[], Awaitable[None]]) -> None:
        self._link = link
        self._lane = lane
        self._run_id = run_id
        self._told = told

    async def lock(self, number: int, label: str, command: str, started_at: str) -> LockMade | LockHeld:
        return await self._link.lock(number, label, command, started_at)

    async def unlock(self, number: int) -> None:
        await self._link.unlock(number)

    async def start(self, order: Order) -> Started | NotStarted:
        await self._note(lambda db: _began(db, self._run_id, order))
        started = await self._link.start(order)
        await self._told()
        return started

    def follow(self, number: int) -> AsyncIterator[Grown | Exited]:
        return _Noted(
            self._link.follow(number), lambda end: self._note(partial(_ended, run_id=self._run_id, number=number, end=end))
        )

    async def signal(self, number: int, grace: float) -> None:
        await self._link.signal(number, grace)

    async def end_child(self, grace: float) -> None:
        await self._link.end_child(grace)

    async def limits(self, number: int, *, leave_within: float) -> None:
        await self._link.limits(number, leave_within=leave_within)

    async def acknowledge(self, number: int) -> None:
        await self._link.acknowledge(number)

    async def _note(self, change: Callable[[sqlite3.Connection], None]) -> None:
        """A list for readers of output, which the folder could give as well: a full disk is no reason to stop."""
        with suppress(DbError):
            await self._lane.once(change, durable=False)


class _Noted:
    """News of a child, its end noted. No generator: one that is left in the middle of a wait would have to be closed."""

    def __init__(self, news: AsyncIterator[Grown | Exited], note: Callable[[Exited], Awaitable[None]]) -> None:
        self._news = news
        self._note = note

    def __aiter__(self) -> AsyncIterator[Grown | Exited]:
        return self

    async def __anext__(self) -> Grown | Exited:
        news = await anext(self._news)
        if isinstance(news, Exited):
            await self._note(news)
        return news

"""From the outbox to the event log: what runs say is published in order and once, whenever the daemon dies.

A row waits in `runs.db`, in the transaction of what it tells of. It is published with a mark of its place; the event log keeps
marks with its rows and drops what is at or below one. Only after that is on disk does the row go.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import anyio
from anyio.abc import TaskStatus

from cueloop_daemon.events.hub import Hub, HubClosed, Overloaded
from cueloop_daemon.events.model import Mark, NewEvent
from cueloop_daemon.runs.batches import forget, held
from cueloop_daemon.runs.lane import DbLane
from cueloop_daemon.runs.records import Held
from cueloop_daemon.store.sqlite import DbDamaged, DbError

logger = logging.getLogger(__name__)

AT_ONCE = 128
"""Rows published together."""

PAUSE = 1.0
"""Seconds before a file that could not be read or written is tried again."""

STATE = "state"
"""The source of what comes through the outbox."""


class Outbox:
    """One per daemon. `published(row)` is called in the same turn in which a row is handed to the hub."""

    def __init__(self, lane: DbLane, hub: Hub, revision: Callable[[], int], published: Callable[[Held], None]) -> None:
        self._lane = lane
        self._hub = hub
        self._revision = revision
        self._published = published
        self._asked = 0
        self._served = 0
        self._wanted = anyio.Event()
        self._changed = anyio.Event()
        self._is_over = False

    def wake(self) -> None:
        """Something was committed."""
        self._asked += 1
        self._wanted.set()

    async def drained(self) -> None:
        """Return when everything that was committed before is told, and kept by the event log; or never will be."""
        target = self._asked
        while self._served < target and not self._is_over:
            await self._changed.wait()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Publish until cancelled, or until the hub is no more."""
        self.wake()
        task_status.started()
        try:
            while True:
                await self._wanted.wait()
                self._wanted = anyio.Event()
                asked = self._asked
                await self._publish_all()
                self._served = asked
                self._tell()
        except HubClosed as exc:
            logger.info("outbox_closed reason=%s", exc)
        finally:
            self._is_over = True
            self._tell()

    async def _publish_all(self) -> None:
        try:
            while rows := await self._rows():
                await self._publish(rows)
        except DbDamaged as exc:
            logger.warning("outbox_lost reason=%s", exc)  # with the file went what waited in it

    async def _rows(self) -> list[Held]:
        while True:
            try:
                return await self._lane.read(lambda db: held(db, AT_ONCE))
            except DbDamaged:
                raise
            except DbError as exc:
                if not self._lane.is_open:
                    return []
                logger.warning("outbox_unreadable reason=%s", exc)
            await anyio.sleep(PAUSE)

    async def _publish(self, rows: Sequence[Held]) -> None:
        for row in rows:
            await self._hand_over(row)
        await self._hub.flush()
        upto = {row.run_id: row.ordinal for row in rows}
        while True:
            try:
                await self._lane.once(lambda db: forget(db, upto), durable=False)
                return
            except DbDamaged:
                raise
            except DbError as exc:
                if not self._lane.is_open:
                    return
                logger.warning("outbox_not_emptied reason=%s", exc)
            await anyio.sleep(PAUSE)

    async def _hand_over(self, row: Held) -> None:
        while True:
            try:
                self._hub.publish(_event(row, self._revision()))
                self._published(row)
                return
            except Overloaded:
                await self._hub.room()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


def _event(row: Held, revision: int) -> NewEvent:
    method, kind, params = row.out
    return NewEvent(
        method, kind, row.run_id, None, b'{"revision":%d,%b' % (revision, params[1:]), Mark(row.run_id, STATE, row.ordinal)
    )

"""From the outbox to the event log: what runs say is published in order and once, whenever the daemon dies.

A row waits in `runs.db`, in the transaction of what it tells of. It is published with a mark of its place; the event log keeps
marks with its rows and drops what is at or below one. Only after that is on disk does the row go.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import anyio
from anyio.abc import TaskStatus

from cueloop_daemon.events.hub import Hub, HubClosed, Overloaded
from cueloop_daemon.events.model import Mark, NewEvent
from cueloop_daemon.runs.batches import forget, held
from cueloop_daemon.runs.lane import DbLane
from cueloop_daemon.runs.records import Held
from cueloop_daemon.store.sqlite import DbError

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
        self._told: dict[str, int] = {}
        """Run → the last ordinal that was told and is not removed yet."""
        self._unremoved = 0

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
                await self._until_wanted()
                asked = self._asked
                await self._publish_all()
                self._served = asked
                self._tell()
                await self._forget()
        except HubClosed as exc:
            logger.info("outbox_closed reason=%s", exc)
        finally:
            self._is_over = True
            self._tell()

    async def _until_wanted(self) -> None:
        """Until something was committed; or, while told rows could not be removed, a little while."""
        with anyio.move_on_after(PAUSE) if self._told else anyio.CancelScope():
            await self._wanted.wait()
        self._wanted = anyio.Event()

    async def _publish_all(self) -> None:
        while True:
            rows = [row for row in await self._rows() if row.ordinal > self._told.get(row.run_id, 0)]
            if not rows:
                return
            for row in rows:
                await self._hand_over(row)
            await self._hub.flush()
            self._told |= {row.run_id: row.ordinal for row in rows}
            self._unremoved += len(rows)

    async def _rows(self) -> list[Held]:
        """The front of the outbox, as far as it can be read: what was told and is still there, and some more."""
        while True:
            try:
                return await self._lane.read(lambda db: held(db, AT_ONCE + self._unremoved))
            except DbError as exc:
                logger.warning("outbox_unreadable reason=%s", exc)
                if not self._lane.is_open:
                    return []  # with the file went what waited in it
            await anyio.sleep(PAUSE)

    async def _forget(self) -> None:
        """Remove what was told. A medium that takes nothing keeps it for now: it is known here, and marked in the event log."""
        if not self._told:
            return
        upto = dict(self._told)
        try:
            await self._lane.once(lambda db: forget(db, upto), durable=False)
        except DbError as exc:
            logger.warning("outbox_not_emptied reason=%s", exc)
            if self._lane.is_open:
                return
        self._told, self._unremoved = {}, 0

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

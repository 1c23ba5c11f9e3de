"""The hub: publishers on one side, subscribers on the other, the journal between them. Commit, then send.

Nothing is queued for a subscriber. One that takes everything is handed each committed group at once; one whose socket is full
stays where it is, and a task of its own reads the log from there each time the socket has room, until it has caught up.
"""

from __future__ import annotations

from collections.abc import Sequence

import anyio
from anyio import TASK_STATUS_IGNORED, CancelScope
from anyio.abc import TaskStatus

from cueloop_daemon.events.fanout import Fanout, SnapshotFor
from cueloop_daemon.events.journal import Journal
from cueloop_daemon.events.marks import Marks
from cueloop_daemon.events.model import Announced, Filter, Group, NewEvent, Row
from cueloop_daemon.events.pending import MOST_BYTES, ROOM_BYTES, Pending
from cueloop_daemon.events.sink import Sink
from cueloop_daemon.events.wire import one_line
from cueloop_protocol.cursor import Cursor
from cueloop_protocol.values import dataclass

OFFERS_AT_ONCE = 4096
"""Notifications handed out without a pause, whatever the number of subscribers: about ten milliseconds of the loop's time."""

FAREWELL = 2.0
"""Seconds that the last commit and the clean end of the log may take."""


class HubClosed(Exception):
    """The hub is not running: not yet, or not any more. Nothing was accepted."""


class Overloaded(Exception):
    """More is waiting to be committed than memory is given for. Nothing was accepted. `room` is the way not to come here."""


@dataclass(frozen=True, slots=True)
class Subscribed:
    """The answer to a subscription: what lies at or below `cursor` is in the snapshot."""

    subscription: str
    cursor: Cursor
    snapshot: bytes


@dataclass(frozen=True, slots=True)
class HubStatus:
    """Counters for `daemon.status`.

    `published` and `commits` are since the hub was made: events accepted, and groups committed, on disk or in memory.
    `reason` is None while events are kept on disk; `notice` is what happened to the log, if anything. Both are for people.
    """

    epoch: str
    first_seq: int
    last_seq: int
    bytes: int
    subscribers: int
    lagging: int
    gaps_sent: int
    published: int
    commits: int
    reason: str | None
    notice: str | None


class Hub:
    """One per daemon. `run` must be running; all methods are called from its event loop."""

    def __init__(self, journal: Journal, snapshot_for: SnapshotFor) -> None:
        self._journal = journal
        self._snapshot_for = snapshot_for
        self._pending = Pending()
        self._published = 0
        self._accepted = 0
        self._commits = 0
        self._marks = Marks()
        self._fanout: Fanout | None = None
        self._is_stopping = False
        self.is_closed = False
        """Whether the log's file was let go of, so that another process may have it."""
        self._wake = anyio.Event()
        self._settled = anyio.Event()

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Open the log, say that the hub is ready, then serve until `stop` or cancellation, and end the log cleanly."""
        await self._journal.open()
        self._published = self._journal.end
        self._marks = Marks(self._journal.marks)
        try:
            async with anyio.create_task_group() as tasks:
                self._fanout = Fanout(self._journal, self._snapshot_for, tasks)
                task_status.started()
                while self._pending or not self._is_stopping:
                    await self._commit_next(self._fanout)
                tasks.cancel_scope.cancel()
        finally:
            with CancelScope(shield=True):
                await self._finish()

    def stop(self) -> None:
        """Commit and hand out what was published, accept nothing more, and let `run` return."""
        self._is_stopping = True
        self._wake.set()

    @property
    def cursor(self) -> Cursor:
        """The end of what is committed; may be told to anybody."""
        return self._journal.cursor

    @property
    def status(self) -> HubStatus:
        """Counters and health. Never raises; nobody subscribes to a hub that does not run."""
        health = self._journal.health
        subscribers, lagging = self._fanout.counts() if self._fanout is not None else (0, 0)
        return HubStatus(
            epoch=self._journal.epoch,
            first_seq=self._journal.first,
            last_seq=self._journal.end,
            bytes=health.bytes,
            subscribers=subscribers,
            lagging=lagging,
            gaps_sent=self._fanout.gaps_sent if self._fanout is not None else 0,
            published=self._accepted,
            commits=self._commits,
            reason=health.reason,
            notice=health.notice,
        )

    @property
    def stuck_for(self) -> float:
        """Seconds since which the log has been waiting for the disk; 0 if it does not."""
        return self._journal.stuck_for

    @property
    def audiences(self) -> frozenset[str]:
        """Those for whom somebody is subscribed."""
        return frozenset() if self._fanout is None else self._fanout.audiences

    def publish(self, event: NewEvent) -> int:
        """Accept an event and give its seq. It is committed soon, and only then sent: see `flush`. HubClosed, Overloaded."""
        return self.publish_all((event,))

    def publish_all(self, events: Sequence[NewEvent], announced: Announced | None = None) -> int:
        """Accept events that are committed together, and with them what the watch remembers having announced.

        Gives the seq of the last one (of the last event at all, if there are none, or all were told before: see `NewEvent.mark`).
        HubClosed, Overloaded: nothing was accepted. ValueError: the params of one are no JSON object.
        """
        self._must_accept()
        fresh, marks = self._marks.untold(events)
        if self._pending.bytes + sum(len(event.params) for event in fresh) > MOST_BYTES:
            raise Overloaded(f"more than {MOST_BYTES} bytes of events wait to be committed")
        rows = tuple(
            Row(seq, event.method, event.kind, event.run_id, event.audience, one_line(event.params))
            for seq, event in enumerate(fresh, self._published + 1)
        )
        if rows or announced:
            self._add(Group(rows, (announced,) if announced else (), marks=marks))
        self._published += len(rows)
        self._accepted += len(rows)
        self._marks.take(marks)
        return self._published

    def mark(self, run_id: str, source: str) -> int:
        """How far this source of a run was told, counting what is accepted and not yet committed; -1: nothing was."""
        return self._marks.position(run_id, source)

    def marked_runs(self) -> frozenset[str]:
        """Runs of which marks are kept."""
        return self._marks.runs()

    def forget_marks(self, run_id: str) -> None:
        """Nothing of this run will be published again. HubClosed."""
        self._must_accept()
        self._marks.forget((run_id,))
        self._add(Group(forgotten=(run_id,)))

    def announced(self, audience: str) -> bytes | None:
        """What was announced last to this audience, as committed; None if nothing is known. Survives restarts."""
        return self._journal.announced.get(audience)

    async def recent(self, count: int) -> tuple[Row, ...]:
        """About the last `count` events that are committed and kept, oldest first; fewer where there are no more."""
        after, rows = max(self._journal.first - 1, self._journal.end - count), list[Row]()
        while (chunk := await self._journal.read(after, Filter())) is not None and chunk.reached > after:
            rows += chunk.rows
            after = chunk.reached
        return tuple(rows[-count:])

    def next_revision(self) -> int:
        """A revision greater than every one before it, also than those of a killed predecessor in this epoch. HubClosed."""
        if self._fanout is None:
            raise HubClosed("the hub is not running")
        revision = self._journal.revisions.next()
        if (floor := self._journal.revisions.to_reserve()) is not None:
            self._add(Group(revision=floor))
        return revision

    async def flush(self) -> None:
        """Return when all that was published before is committed and handed out. HubClosed if the hub ends first.

        Has an end: a disk that takes nothing is given up after about a second, see `journal`.
        """
        target = self._pending.added
        while self._pending.done < target:
            if self._fanout is None:
                raise HubClosed("the hub ended before the events were committed")
            await self._settled.wait()

    async def room(self) -> None:
        """Return when little waits to be committed. Who publishes output awaits it after each event."""
        while self._pending.bytes > ROOM_BYTES and self._fanout is not None:
            await self._settled.wait()

    async def subscribe(self, sink: Sink, wanted: Filter, cursor: Cursor | None = None) -> Subscribed:
        """Register a subscriber after `cursor` (None: from now on). It hears nothing before `start`: the reply comes first.

        The snapshot and the place in the stream belong to one moment, and the cursor is committed when this returns; a burst of
        events cannot keep it waiting. A cursor that is of another epoch, fell out, or lies beyond the end is answered by a gap
        after `start`. HubClosed, TooManySubscriptions.
        """
        fanout = self._open
        follows_from = self._published
        snapshot = self._snapshot_for(wanted.audience)
        subscriber = fanout.register(sink, wanted, cursor or Cursor(self._journal.epoch, follows_from))
        try:
            await self.flush()
        except BaseException:
            fanout.remove(subscriber.id, sink)
            raise
        if cursor is None:
            subscriber.cursor = Cursor(self._journal.epoch, follows_from)  # the epoch may have changed while we waited
        return Subscribed(subscriber.id, subscriber.cursor, snapshot)

    def start(self, subscription: str) -> None:
        """The reply with this subscription is out: begin to tell it. Nothing happens if it is gone by now."""
        if self._fanout is not None:
            self._fanout.start(subscription)

    def unsubscribe(self, subscription: str, sink: Sink) -> bool:
        """End a subscription; False if this connection has none of that name. Nothing is sent for it after this."""
        return self._fanout is not None and self._fanout.remove(subscription, sink)

    def forget(self, sink: Sink) -> None:
        """The connection is closed: its subscriptions are gone at once."""
        if self._fanout is not None:
            self._fanout.forget(sink)

    def set_limit(self, limit: int) -> None:
        """Bytes that the log may use from now on."""
        self._journal.set_limit(limit)

    @property
    def _open(self) -> Fanout:
        if self._fanout is None:
            raise HubClosed("the hub is not running")
        return self._fanout

    def _must_accept(self) -> None:
        if self._fanout is None or self._is_stopping:
            raise HubClosed("the hub is not running")

    def _add(self, group: Group) -> None:
        self._pending.add(group)
        self._wake.set()

    async def _commit_next(self, fanout: Fanout) -> None:
        """One group, from the queue to the subscribers."""
        if not self._pending:
            self._wake = anyio.Event()
            await self._wake.wait()
            return
        before = self._journal.cursor
        group, count = self._pending.first(max(1, OFFERS_AT_ONCE // (fanout.live + 1)))
        await self._journal.commit(group, lambda: self._pending.bytes > MOST_BYTES // 2)
        self._commits += 1
        if self._journal.epoch == before.epoch:
            fanout.hand_out(group.rows)
        else:
            fanout.unsettle(before)
        self._settle(count)

    def _settle(self, count: int) -> None:
        self._pending.settle(count)
        settled, self._settled = self._settled, anyio.Event()
        settled.set()

    async def _finish(self) -> None:
        with anyio.move_on_after(FAREWELL):
            while self._pending:
                group, count = self._pending.first(MOST_BYTES)
                await self._journal.commit(group, lambda: True)
                self._pending.settle(count)
        with anyio.move_on_after(FAREWELL) as ending:
            await self._journal.close()
        self.is_closed = not ending.cancelled_caught
        self._fanout = None
        self._settled.set()

"""The subscribers: who stands at the end of the log and is handed each group, who lags and is pumped, who is gone."""

from __future__ import annotations

from collections.abc import Callable

from anyio import CancelScope
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from cueloop_daemon.events import wire
from cueloop_daemon.events.journal import Journal
from cueloop_daemon.events.model import Filter, Method, Row
from cueloop_daemon.events.sink import Sink, SinkClosed
from cueloop_daemon.events.subscriber import Kin, State, Subscriber
from cueloop_protocol.cursor import Cursor

SnapshotFor = Callable[[str | None], bytes]
"""The state as one JSON object, for the audience of a filter. Called on the loop, never awaits."""

MOST_PER_SINK = 64
"""Subscriptions of one connection."""


class TooManySubscriptions(Exception):
    """The connection has `MOST_PER_SINK` subscriptions already."""


class Fanout:
    """Owned by the hub, which calls `hand_out` after each commit. Pumps run in `tasks`."""

    def __init__(self, journal: Journal, snapshot_for: SnapshotFor, tasks: TaskGroup) -> None:
        self._journal = journal
        self._snapshot_for = snapshot_for
        self._tasks = tasks
        self._all: dict[str, Subscriber] = {}
        self._live: dict[Kin, dict[Subscriber, None]] = {}
        self._made = 0
        self.gaps_sent = 0

    def register(self, sink: Sink, wanted: Filter, cursor: Cursor) -> Subscriber:
        """A new subscriber at `cursor`, silent. TooManySubscriptions."""
        if sum(subscriber.sink is sink for subscriber in self._all.values()) >= MOST_PER_SINK:
            raise TooManySubscriptions(f"a connection may have {MOST_PER_SINK} subscriptions")
        self._made += 1
        subscriber = Subscriber(f"s{self._made}", sink, wanted, cursor)
        self._all[subscriber.id] = subscriber
        return subscriber

    def start(self, subscription: str) -> None:
        """Begin to tell a silent subscriber. Nothing happens if it is gone by now."""
        subscriber = self._all.get(subscription)
        if subscriber is None or subscriber.state is not State.SILENT:
            return
        if subscriber.cursor == self._journal.cursor:
            self._go_live(subscriber)
        else:
            self._pump_from(subscriber, subscriber.cursor)

    def remove(self, subscription: str, sink: Sink) -> bool:
        """End a subscription of this connection; False if it has none of that name. Nothing more is sent for it."""
        subscriber = self._all.get(subscription)
        if subscriber is None or subscriber.sink is not sink:
            return False
        self._end(subscriber)
        return True

    def forget(self, sink: Sink) -> None:
        """End all that belongs to a connection."""
        for subscriber in [one for one in self._all.values() if one.sink is sink]:
            self._end(subscriber)

    @property
    def live(self) -> int:
        """How many stand at the end."""
        return sum(map(len, self._live.values()))

    def counts(self) -> tuple[int, int]:
        """(subscribers, those of them that lag). Whose connection is closed does not count, and is gone after this."""
        for subscriber in [one for one in self._all.values() if one.sink.closed]:
            self._end(subscriber)
        return len(self._all), sum(one.state is State.LAGGING for one in self._all.values())

    @property
    def audiences(self) -> frozenset[str]:
        """Those for whom somebody is subscribed."""
        return frozenset(one.wanted.audience for one in self._all.values() if one.wanted.audience is not None)

    def hand_out(self, rows: tuple[Row, ...]) -> None:
        """Give what was just committed to all who stand before it, each row encoded once. Who refuses one lags from there."""
        if not self._live or not rows:
            return
        tails = [(row, wire.tail(self._journal.epoch, row)) for row in rows]
        refused: list[tuple[Subscriber, int]] = []
        for kin, members in self._live.items():
            sample = next(iter(members))
            packets: list[tuple[int, Method, bytes, bytes]] = [
                (row.seq, row.method, *sample.framed(row.method, tail)) for row, tail in tails if kin.wanted.wants(row)
            ]
            for subscriber in members if packets else ():
                for seq, method, before, after in packets:
                    if not subscriber.sink.offer(before + subscriber.heads[method] + after):
                        refused.append((subscriber, seq))
                        break
        for subscriber, seq in refused:
            self._pump_from(subscriber, Cursor(self._journal.epoch, seq - 1))

    def unsettle(self, last: Cursor) -> None:
        """The epoch has changed: whoever stood at the end, which was `last`, is told of it by a gap."""
        for subscriber in [one for members in self._live.values() for one in members]:
            self._pump_from(subscriber, last)

    def _go_live(self, subscriber: Subscriber) -> None:
        subscriber.state = State.LIVE
        self._live.setdefault(subscriber.kin, {})[subscriber] = None

    def _pump_from(self, subscriber: Subscriber, cursor: Cursor) -> None:
        self._leave_live(subscriber)
        if subscriber.sink.closed:
            self._end(subscriber)
            return
        subscriber.cursor = cursor
        subscriber.state = State.LAGGING
        self._tasks.start_soon(self._pump, subscriber)

    def _leave_live(self, subscriber: Subscriber) -> None:
        if (members := self._live.get(subscriber.kin)) is not None:
            members.pop(subscriber, None)
            if not members:
                del self._live[subscriber.kin]

    def _end(self, subscriber: Subscriber) -> None:
        self._leave_live(subscriber)
        subscriber.state = State.GONE
        self._all.pop(subscriber.id, None)
        if subscriber.pump is not None:
            subscriber.pump.cancel()

    async def _pump(self, subscriber: Subscriber) -> None:
        """Tell one that lags what it missed, as fast as its socket takes it, until it stands at the end or is gone."""
        with CancelScope() as subscriber.pump:
            try:
                while subscriber.state is State.LAGGING:
                    await subscriber.sink.drained()
                    await checkpoint()  # whatever the sink does, others have their turn
                    await self._advance(subscriber)
            except SinkClosed:
                self._end(subscriber)

    async def _advance(self, subscriber: Subscriber) -> None:
        """One chunk, or one gap. What was read and not taken is dropped and read again: a stopped subscriber holds nothing."""
        at = subscriber.cursor
        is_known = at.epoch == self._journal.epoch and at.seq <= self._journal.end
        chunk = await self._journal.read(at.seq, subscriber.wanted) if is_known else None
        if subscriber.state is not State.LAGGING:
            return  # it went while its chunk was read; a thread's result arrives in spite of a cancellation
        if chunk is None:
            self._tell_gap(subscriber)
        elif subscriber.offer_rows(chunk.rows, chunk.reached) and subscriber.cursor == self._journal.cursor:
            self._go_live(subscriber)

    def _tell_gap(self, subscriber: Subscriber) -> None:
        """State, place and registration at the end belong to one moment: nothing is awaited in here."""
        end = self._journal.cursor
        snapshot = self._snapshot_for(subscriber.wanted.audience)
        body = wire.gap(subscriber.id, subscriber.cursor, end, snapshot)
        if subscriber.sink.offer(subscriber.sink.frame(body)):
            self.gaps_sent += 1
            subscriber.cursor = end
            self._go_live(subscriber)

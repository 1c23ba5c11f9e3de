"""From the outbox to the event log: everything once and in order, with full disks on either side."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from cueloop_daemon.events import Filter, Hub
from cueloop_daemon.runs import queries
from cueloop_daemon.runs.batches import end, held, say, speakers
from cueloop_daemon.runs.db import RunsPlace
from cueloop_daemon.runs.ending import over, told
from cueloop_daemon.runs.lane import DbLane
from cueloop_daemon.runs.outbox import AT_ONCE, Outbox
from cueloop_daemon.runs.records import Held
from cueloop_daemon.store.sqlite import DbDamaged
from cueloop_protocol.documents.summary import Summary
from events.hubs import FakeSink
from events.hubs import World as Log
from events.test_degraded import Faulty
from runs.fakes import NOW, RUN
from runs.records import new_run, warned


class Pump:
    """An outbox at work, with a subscriber of its hub."""

    def __init__(self, lane: DbLane, hub: Hub, sink: FakeSink) -> None:
        self.lane, self.hub, self.sink = lane, hub, sink
        self.published: list[Held] = []
        self.outbox = Outbox(lane, hub, lambda: 7, self.published.append)

    async def say(self, *texts: str) -> None:
        out = [told(RUN, warned(text)) for text in texts]
        await self.lane.once(lambda db: say(db, RUN, out))
        self.outbox.wake()

    @property
    def heard(self) -> list[str]:
        return [params["event"]["message"] for params in self.sink.params]

    async def left(self) -> int:
        return len(await self.lane.read(lambda db: held(db, 1000)))

    async def emptied(self) -> None:
        while await self.left():
            await anyio.sleep(0)


@asynccontextmanager
async def pumping(log: Log, place: RunsPlace, **changes: object) -> AsyncIterator[Pump]:
    hub, sink, lane = log.hub(**changes), FakeSink(), DbLane(place)
    await lane.open()
    if await lane.read(lambda db: queries.get(db, RUN)) is None:
        await lane.once(lambda db: queries.insert(db, new_run()))
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            await tasks.start(hub.run)
            subscribed = await hub.subscribe(sink, Filter())
            hub.start(subscribed.subscription)
            pump = Pump(lane, hub, sink)
            await tasks.start(pump.outbox.run)
            yield pump
            hub.stop()
            tasks.cancel_scope.cancel()
    await lane.close()


@pytest.fixture
def log(tmp_path: Path) -> Log:
    folder = tmp_path / "log"
    folder.mkdir()
    return Log(folder)


async def test_what_is_committed_is_told_in_order_with_a_revision_and_then_gone(log: Log, place: RunsPlace) -> None:
    async with pumping(log, place) as pump:
        texts = [str(number) for number in range(2 * AT_ONCE + 10)]
        await pump.say(*texts)
        await pump.outbox.drained()
        assert pump.heard == texts
        assert pump.sink.numbers == list(range(1, len(texts) + 1))
        assert pump.sink.params[0]["revision"] == 7
        assert [row.ordinal for row in pump.published] == list(range(1, len(texts) + 1))
        await pump.emptied()


async def test_a_row_that_is_still_there_is_not_told_again_by_the_next_life(log: Log, place: RunsPlace, tmp_path: Path) -> None:
    faulty = Faulty()
    async with pumping(log, replace(place, connect=faulty.connect)) as pump:
        await pump.say("a", "b")
        await pump.outbox.drained()
        await pump.emptied()
        await pump.say("c")
        faulty.failures = float("inf")  # told, but its removal is refused for ever
        await pump.outbox.drained()
        assert pump.heard == ["a", "b", "c"]
        assert await pump.left() == 1
        faulty.failures = 0
    async with pumping(log, place) as pump:
        await pump.outbox.drained()
        await pump.say("d")
        await pump.outbox.drained()
        assert pump.heard == ["d"]


async def test_on_a_disk_that_takes_nothing_each_event_is_told_once(
    log: Log, place: RunsPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cueloop_daemon.runs.outbox.PAUSE", 0.001)
    record, events = Faulty(), Faulty()
    async with pumping(log, replace(place, connect=record.connect), connect=events.connect) as pump:
        await pump.say("a")
        await pump.outbox.drained()
        await pump.emptied()
        await pump.say("b", "c")
        record.failures = events.failures = float("inf")
        await pump.outbox.drained()
        for _ in range(5):
            pump.outbox.wake()
            await pump.outbox.drained()
        record.failures = events.failures = 0
        await pump.emptied()
        await pump.say("d")
        await pump.outbox.drained()
        texts = [message["params"]["event"]["message"] for message in pump.sink.messages if message["method"] == "event"]
        # The log went into memory: one gap stands for what it could not keep, and nothing is told after it that was told before.
        assert texts == ["a", "d"]
        assert [message["method"] for message in pump.sink.messages].count("gap") == 1


async def test_drained_has_an_end_when_the_hub_has(log: Log, place: RunsPlace) -> None:
    async with pumping(log, place) as pump:
        pump.hub.stop()
        await pump.say("a")
        await pump.outbox.drained()
    async with pumping(log, place) as pump:
        await pump.outbox.drained()
        assert pump.heard == ["a"]


async def test_a_record_that_is_lost_stops_nothing(log: Log, place: RunsPlace, tmp_path: Path) -> None:
    async with pumping(log, place) as pump:
        for name in ("runs.db", "runs.db-wal"):
            (tmp_path / name).unlink()
        pump.outbox.wake()
        await pump.outbox.drained()
        with pytest.raises(DbDamaged):
            await pump.lane.once(lambda db: None)
        pump.outbox.wake()
        await pump.outbox.drained()
        await pump.lane.open()
        await pump.lane.once(lambda db: queries.insert(db, new_run()))
        await pump.say("of the new one")
        await pump.outbox.drained()
        assert pump.heard == ["of the new one"]


async def test_the_end_resolves_questions_before_it_and_is_last(log: Log, place: RunsPlace) -> None:
    async with pumping(log, place) as pump:
        summary = Summary(task_id=None, exit_code=0, outcome="stopped")
        await pump.lane.once(lambda db: end(db, RUN, over(RUN, summary, None, NOW)))
        assert await pump.lane.read(speakers) == {RUN}
        pump.outbox.wake()
        await pump.outbox.drained()
        assert [row.out.method for row in pump.published] == ["run.finished"]
        assert pump.sink.params[0]["summary"]["outcome"] == "stopped"

"""Subscribers that do not keep up: they delay nobody, hold nothing, and hear all of it, or one gap."""

from __future__ import annotations

import json
import sqlite3
import threading
from dataclasses import replace
from itertools import pairwise
from typing import Any

import anyio
import pytest
from anyio import to_thread

from cueloop_daemon.events import Filter, Hub
from cueloop_daemon.events.journal import RECENT_BYTES
from cueloop_daemon.events.log import CHUNK_ROWS
from cueloop_protocol.cursor import Cursor
from events.hubs import FakeSink, World, listening, output, running, warning


async def publish_many(hub: Hub, number: int, size: int = 20) -> None:
    for first in range(0, number, 50):
        hub.publish_all([warning("x" * size) for _ in range(min(50, number - first))])
        await hub.flush()


@pytest.mark.parametrize(("number", "size"), [(20, 20), (3000, 20), (600, 2000)], ids=["few", "many", "more than memory keeps"])
async def test_a_stopped_subscriber_delays_nobody_and_catches_up_in_order(world: World, number: int, size: int) -> None:
    async with running(world.hub()) as hub:
        stopped, quick = FakeSink(room=2), FakeSink()
        await listening(hub, stopped)
        await listening(hub, quick)
        await publish_many(hub, number, size)
        assert quick.numbers == list(range(1, number + 1))
        assert stopped.numbers == [1, 2]
        assert (hub.status.subscribers, hub.status.lagging) == (2, 1)
        stopped.make_room()
        await stopped.until_taken(number)
        hub.publish(warning())
        await stopped.until_taken(number + 1)
        assert stopped.numbers == list(range(1, number + 2))
        assert (hub.status.lagging, hub.status.gaps_sent) == (0, 0)


async def test_one_that_takes_one_at_a_time_hears_everything_once(world: World) -> None:
    async with running(world.hub()) as hub:
        sink = FakeSink(room=0)
        await listening(hub, sink)
        await publish_many(hub, 2 * CHUNK_ROWS, RECENT_BYTES // CHUNK_ROWS)
        for taken in range(1, 2 * CHUNK_ROWS + 1):
            sink.make_room(1)
            await sink.until_taken(taken)
        assert sink.numbers == list(range(1, 2 * CHUNK_ROWS + 1))


async def test_nothing_is_held_for_one_who_cannot_take_it(world: World) -> None:
    """D16: whatever was read and refused is read again; while it waits, its pump waits too."""
    async with running(world.hub()) as hub:
        sink = FakeSink(room=0)
        await listening(hub, sink)
        await publish_many(hub, 10)
        await sink.until(lambda: sink.waiting == 1)
        refusals = sink.refusals
        await publish_many(hub, 1000)
        assert sink.refusals == refusals  # it is not even offered anything


async def test_what_it_missed_for_good_is_one_gap(world: World) -> None:
    """D16: the log moves on without it; when it reads again it is told so once, and is live."""
    async with running(replace(world, limit=256 * 1024).hub()) as hub:
        sink = FakeSink(room=3)
        await listening(hub, sink, Filter(audience="home"))
        await publish_many(hub, 1000, 2000)
        sink.make_room()
        await sink.until_taken(4)
        hub.publish(warning())
        await sink.until_taken(5)
        assert [message["method"] for message in sink.messages] == ["event"] * 3 + ["gap", "event"]
        gap = sink.params[3]
        assert (gap["from"], gap["to"]) == ("epoch1:3", "epoch1:1000")
        assert gap["snapshot"]["for"] == "home"
        assert sink.numbers == [1, 2, 3, 1000, 1001]
        assert hub.status.gaps_sent == 1


async def test_a_gap_that_is_refused_is_made_anew_when_there_is_room(world: World) -> None:
    async with running(world.hub()) as hub:
        sink = Hesitant()
        await listening(hub, sink, cursor=Cursor("other", 1))
        await sink.until(lambda: sink.refusals == 1)
        await publish_many(hub, 5)
        sink.hesitates = False
        sink.make_room()
        await sink.until_taken(1)
        assert sink.params[0]["to"] == "epoch1:5"
        assert hub.status.gaps_sent == 1


class Hesitant(FakeSink):
    """Says that it can take a frame, and then does not."""

    hesitates = True

    def offer(self, frame: bytes) -> bool:
        if self.hesitates:
            self.room = 0
        return super().offer(frame)


async def test_output_is_joined_for_one_who_lags_and_state_events_never(world: World) -> None:
    async with running(world.hub()) as hub:
        slow, quick = FakeSink(room=0), FakeSink()
        await listening(hub, slow)
        await listening(hub, quick)
        for number in range(40):
            hub.publish_all([output(f"{number},"), output("+"), warning(str(number))])
            await hub.flush()
        await publish_many(hub, 400, 2000)  # push the output out of memory: it is read from the log
        slow.make_room()
        await slow.until(lambda: bool(slow.frames) and slow.numbers[-1] == hub.cursor.seq)

        def told(sink: FakeSink, kind: str) -> list[dict[str, object]]:
            return [params["event"] for params in sink.params if params["event"]["kind"] == kind]

        assert told(slow, "warning") == told(quick, "warning")
        texts = ["".join(str(e["payload"]["text"]) for e in told(sink, "runner_output")) for sink in (slow, quick)]  # type: ignore[index]
        assert texts[0] == texts[1]
        assert len(told(slow, "runner_output")) == 40
        assert len(told(quick, "runner_output")) == 80
        assert all(earlier < later for earlier, later in pairwise(slow.numbers))
        assert slow.numbers[0] == 2


async def test_unsubscribing_while_lagging_ends_its_pump(world: World) -> None:
    async with running(world.hub()) as hub:
        sink = FakeSink(room=0)
        name = await listening(hub, sink)
        await publish_many(hub, 5)
        await sink.until(lambda: sink.waiting == 1)
        assert hub.unsubscribe(name, sink) is True
        await sink.until(lambda: sink.waiting == 0)
        sink.make_room()
        await publish_many(hub, 5)
        assert sink.frames == []


async def test_a_connection_that_closes_while_lagging_is_removed(world: World) -> None:
    """D16: its listener is really gone."""
    async with running(world.hub()) as hub:
        sink = FakeSink(room=0)
        await listening(hub, sink)
        await publish_many(hub, 5)
        await sink.until(lambda: sink.waiting == 1)
        sink.close()
        await sink.until(lambda: sink.waiting == 0)
        assert (hub.status.subscribers, hub.status.lagging) == (0, 0)


class Gate:
    """Opens databases that read events only when they are let."""

    def __init__(self) -> None:
        self.is_reading = threading.Event()
        self.may_read = threading.Event()

    def connect(self, path: str, how: str) -> sqlite3.Connection:
        gate = self

        class Gated(sqlite3.Connection):
            def execute(self, sql: str, *rest: Any) -> sqlite3.Cursor:
                if sql.startswith("SELECT seq, method"):
                    gate.is_reading.set()
                    assert gate.may_read.wait(10)
                return super().execute(sql, *rest)

        return sqlite3.connect(f"file:{path}?{how}", uri=True, isolation_level=None, check_same_thread=False, factory=Gated)


async def test_unsubscribing_while_its_chunk_is_read_sends_nothing_more(world: World) -> None:
    gate = Gate()
    async with running(world.hub(connect=gate.connect)) as hub:
        await publish_many(hub, 400, 2000)
        sink = FakeSink()
        name = await listening(hub, sink, cursor=Cursor("epoch1", 0))
        assert await to_thread.run_sync(gate.is_reading.wait, 10)
        assert hub.unsubscribe(name, sink) is True
        gate.may_read.set()
        await publish_many(hub, 10)  # waits for its turn after the read
        assert sink.frames == []
        assert hub.status.subscribers == 0


async def test_a_commit_waits_for_one_read_and_not_for_the_reads_of_all_who_lag(world: World) -> None:
    gate = Gate()
    async with running(world.hub(connect=gate.connect)) as hub:
        await publish_many(hub, 400, 2000)
        sinks = [FakeSink() for _ in range(20)]
        for sink in sinks:
            await listening(hub, sink, cursor=Cursor("epoch1", 0))
        assert await to_thread.run_sync(gate.is_reading.wait, 10)
        hub.publish(warning())  # in the queue for the file behind the read that is under way, and before the other nineteen
        gate.may_read.set()
        await hub.flush()
        assert sum(bool(sink.frames) for sink in sinks) <= 2
        for sink in sinks:
            await sink.until(lambda sink=sink: bool(sink.frames) and sink.numbers[-1] == 401)  # type: ignore[misc]
            assert sink.numbers == list(range(1, 402))


async def test_catching_up_ends_under_a_steady_stream(world: World) -> None:
    async with running(world.hub()) as hub, anyio.create_task_group() as tasks:
        await publish_many(hub, 1000, 1000)

        async def stream() -> None:
            while True:
                hub.publish(warning("steady"))
                await hub.flush()

        tasks.start_soon(stream)
        sink = FakeSink()
        await listening(hub, sink, cursor=Cursor("epoch1", 0))
        await sink.until(lambda: len(sink.frames) > 1000 and hub.status.lagging == 0)
        tasks.cancel_scope.cancel()
    assert sink.numbers == list(range(1, len(sink.numbers) + 1))


async def test_a_row_that_was_taken_out_of_the_log_is_a_gap_and_not_a_silence(world: World) -> None:
    async with running(world.hub()) as hub:
        await publish_many(hub, 10)
    outsider = sqlite3.connect(world.path)
    outsider.execute("DELETE FROM events WHERE seq = 5")
    outsider.commit()
    outsider.close()
    async with running(world.hub()) as hub:
        sink = FakeSink()
        await listening(hub, sink, cursor=Cursor("epoch1", 2))
        await sink.until_taken(3)
        assert [json.loads(frame)["method"] for frame in sink.frames] == ["event", "event", "gap"]
        assert sink.numbers == [3, 4, 10]

"""Publishing and subscribing: order, filters, cursors, and what is promised at the moment of subscribing."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace

import anyio
import pytest

from cueloop_daemon.events import Announced, Filter, Hub, HubClosed, NewEvent, Overloaded, TooManySubscriptions
from cueloop_daemon.events.fanout import MOST_PER_SINK
from cueloop_daemon.events.hub import OFFERS_AT_ONCE
from cueloop_daemon.events.opening import open_log
from cueloop_daemon.events.pending import MOST_BYTES
from cueloop_protocol.cursor import Cursor
from events.hubs import FakeSink, World, listening, running, warning


async def test_each_event_is_told_once_in_order_with_its_cursor(world: World) -> None:
    async with running(world.hub()) as hub:
        sink = FakeSink()
        await listening(hub, sink)
        assert [hub.publish(warning(str(number))) for number in range(1, 6)] == [1, 2, 3, 4, 5]
        await hub.flush()
        assert sink.numbers == [1, 2, 3, 4, 5]
        assert [params["event"]["message"] for params in sink.params] == ["1", "2", "3", "4", "5"]
        assert {params["cursor"].split(":")[0] for params in sink.params} == {hub.cursor.epoch}
        assert hub.cursor.seq == 5


class Suspicious(FakeSink):
    """Looks into a copy of the log, as a successor would after a kill, before it takes anything."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.in_log: list[int] = []

    def offer(self, frame: bytes) -> bool:
        log = open_log(self.world.as_after_a_kill(f"copy-{len(self.in_log)}").place)
        self.in_log.append(log.last_seq)
        log.abandon()
        return super().offer(frame)


async def test_an_event_is_on_disk_before_anybody_hears_of_it(world: World) -> None:
    async with running(world.hub()) as hub:
        sink = Suspicious(world)
        await listening(hub, sink)
        for number in range(5):
            hub.publish(warning(str(number)))
            if number % 2:
                await hub.flush()
        await hub.flush()
    assert sink.numbers == [1, 2, 3, 4, 5]
    assert all(kept >= told for kept, told in zip(sink.in_log, sink.numbers, strict=True))


async def test_nothing_is_told_before_the_reply_is_out(world: World) -> None:
    async with running(world.hub()) as hub:
        sink = FakeSink()
        subscribed = await hub.subscribe(sink, Filter())
        hub.publish(warning("after the snapshot"))
        await hub.flush()
        assert sink.frames == []
        hub.start(subscribed.subscription)
        hub.start(subscribed.subscription)
        await sink.until_taken(1)
        hub.publish(warning())
        await sink.until_taken(2)
        hub.start(subscribed.subscription)  # starting again repeats nothing
        hub.publish(warning())
        await hub.flush()
        assert sink.numbers == [1, 2, 3]


async def test_snapshot_and_cursor_are_of_one_moment_and_the_cursor_is_committed(world: World) -> None:
    async with running(world.hub()) as hub:
        hub.publish(warning("in the snapshot"))
        seen = len(world.snapshots)
        subscribed = await hub.subscribe(FakeSink(), Filter(audience="home"))
        assert subscribed.cursor == Cursor(hub.cursor.epoch, 1)
        assert json.loads(subscribed.snapshot)["number"] == seen + 1
        assert world.snapshots[-1] == "home"
        log = open_log(world.as_after_a_kill("copy").place)
        log.abandon()
        assert log.last_seq >= subscribed.cursor.seq


async def test_who_gives_up_while_subscribing_is_not_left_behind(world: World) -> None:
    async with running(world.hub()) as hub:
        sink = FakeSink()
        hub.publish(warning())
        with anyio.CancelScope() as scope:
            scope.cancel()
            await hub.subscribe(sink, Filter())
        assert scope.cancelled_caught
        assert hub.status.subscribers == 0


async def test_a_flood_of_events_keeps_no_subscriber_waiting(world: World) -> None:
    async with running(world.hub()) as hub, anyio.create_task_group() as tasks:

        async def flood() -> None:
            while True:
                hub.publish(warning("flood"))
                await anyio.lowlevel.checkpoint()

        tasks.start_soon(flood)
        sink = FakeSink()
        with anyio.fail_after(5):
            subscribed = await hub.subscribe(sink, Filter())
        hub.start(subscribed.subscription)
        await sink.until_taken(50)
        tasks.cancel_scope.cancel()
    first = subscribed.cursor.seq + 1
    assert sink.numbers == list(range(first, first + len(sink.numbers)))


async def test_many_events_to_many_subscribers_are_handed_out_in_portions(world: World) -> None:
    """Whoever else needs the loop has it in between."""
    async with running(world.hub()) as hub, anyio.create_task_group() as tasks:
        sinks = [FakeSink() for _ in range(100)]
        for sink in sinks:
            await listening(hub, sink)
        portions: list[int] = []

        async def watch() -> None:
            seen = 0
            while True:
                total = sum(len(sink.frames) for sink in sinks)
                portions.append(total - seen)
                seen = total
                await anyio.lowlevel.checkpoint()

        tasks.start_soon(watch)
        for number in range(200):
            hub.publish(warning(str(number)))
        await hub.flush()
        await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    assert sum(portions) == 100 * 200
    assert max(portions) <= OFFERS_AT_ONCE


def run_finished(run_id: str) -> NewEvent:
    return NewEvent("run.finished", None, run_id, None, b"{}")


EVENTS = (
    warning("1"),
    warning("2", run_id="r1"),
    warning("3", run_id="r2", kind="resume_decision"),
    warning("4", audience="a", kind="config_resolved"),
    warning("5", audience="b"),
    run_finished("r1"),
    run_finished("r2"),
)


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        (Filter(), [1, 2, 3, 4, 5, 6, 7]),
        (Filter(kinds=frozenset({"resume_decision"})), [3, 6, 7]),
        (Filter(kinds=frozenset()), [6, 7]),
        (Filter(run_id="r1"), [1, 2, 4, 5, 6]),
        (Filter(audience="a"), [1, 2, 3, 4, 6, 7]),
        (Filter(kinds=frozenset({"warning"}), run_id="r2", audience="b"), [1, 5, 7]),
    ],
    ids=["all", "kinds filters events only", "no kinds", "other runs are left out", "other callers are left out", "together"],
)
@pytest.mark.parametrize("replayed", [False, True], ids=["live", "replayed"])
async def test_a_filter_gives_the_same_live_and_replayed(
    world: World, wanted: Filter, numbers: list[int], replayed: bool
) -> None:
    async with running(world.hub()) as hub:
        sink = FakeSink()
        start = hub.cursor
        if not replayed:
            await listening(hub, sink, wanted)
        hub.publish_all(EVENTS)
        await hub.flush()
        if replayed:
            await listening(hub, sink, wanted, start)
            await sink.until_taken(len(numbers))
        assert sink.numbers == numbers


async def test_a_cursor_goes_on_after_a_restart(world: World) -> None:
    async with running(world.hub()) as hub:
        hub.publish_all([warning(str(number)) for number in range(1, 11)])
        await hub.flush()
        cursor = Cursor(hub.cursor.epoch, 4)
    async with running(world.hub()) as hub:
        sink = FakeSink()
        await listening(hub, sink, cursor=cursor)
        await sink.until_taken(6)
        hub.publish(warning("live"))
        await sink.until_taken(7)
        assert sink.numbers == [5, 6, 7, 8, 9, 10, 11]
        assert hub.status.gaps_sent == 0


async def test_a_cursor_at_the_end_is_live_at_once(world: World) -> None:
    async with running(world.hub()) as hub:
        hub.publish(warning())
        await hub.flush()
        sink = FakeSink()
        await listening(hub, sink, cursor=hub.cursor)
        assert hub.status.lagging == 0
        hub.publish(warning())
        await hub.flush()
        assert sink.numbers == [2]


@pytest.mark.parametrize(
    "cursor",
    [Cursor("other", 3), Cursor("epoch1", 99), Cursor("other", 0)],
    ids=["other epoch", "beyond the end", "other epoch, 0"],
)
async def test_a_cursor_that_means_nothing_here_gets_one_gap_although_filtered(world: World, cursor: Cursor) -> None:
    async with running(world.hub()) as hub:
        hub.publish_all([warning(), warning()])
        await hub.flush()
        sink = FakeSink()
        await listening(hub, sink, Filter(kinds=frozenset(), run_id="none", audience="home"), cursor)
        await sink.until_taken(1)
        (message,) = sink.messages
        assert message["method"] == "gap"
        assert (message["params"]["from"], message["params"]["to"]) == (str(cursor), str(hub.cursor))
        assert message["params"]["cursor"] == message["params"]["to"]
        assert message["params"]["snapshot"]["for"] == "home"
        assert hub.status.gaps_sent == 1
        hub.publish(run_finished("none"))
        await sink.until_taken(2)
        assert sink.numbers == [2, 3]


async def test_a_cursor_from_before_its_epoch_gets_a_gap_and_not_the_rows_of_another_epoch(world: World) -> None:
    async with running(world.hub()) as hub:
        hub.publish_all([warning(), warning(), warning()])
        await hub.flush()
        killed = world.as_after_a_kill("killed")
    async with running(replace(killed, boot_id="boot-2").hub()) as hub:
        sink = FakeSink()
        await listening(hub, sink, cursor=Cursor(hub.cursor.epoch, 1))
        await sink.until_taken(1)
        assert [message["method"] for message in sink.messages] == ["gap"]


async def test_what_fell_out_of_the_log_is_one_gap_and_then_the_stream_goes_on(world: World) -> None:
    small = replace(world, limit=128 * 1024)
    async with running(small.hub()) as hub:
        hub.publish(warning("first"))
        await hub.flush()
        cursor = hub.cursor
        for _ in range(20):
            hub.publish_all([warning("x" * 3000) for _ in range(10)])
            await hub.flush()
        sink = FakeSink()
        await listening(hub, sink, cursor=cursor)
        await sink.until_taken(1)
        hub.publish(warning("live"))
        await sink.until_taken(2)
        assert [message["method"] for message in sink.messages] == ["gap", "event"]
        assert sink.numbers == [201, 202]


async def test_unsubscribing_ends_it_at_once_and_only_by_its_own_connection(world: World) -> None:
    async with running(world.hub()) as hub:
        mine, other = FakeSink(), FakeSink()
        name = await listening(hub, mine)
        assert hub.unsubscribe(name, other) is False
        assert hub.unsubscribe("s99", mine) is False
        hub.publish(warning())
        assert hub.unsubscribe(name, mine) is True
        assert hub.unsubscribe(name, mine) is False
        await hub.flush()
        assert mine.frames == []
        assert hub.status.subscribers == 0
        hub.start(name)
        assert hub.status.subscribers == 0


async def test_a_connection_that_ends_takes_all_its_subscriptions_along(world: World) -> None:
    async with running(world.hub()) as hub:
        gone, stays = FakeSink(), FakeSink()
        for _ in range(3):
            await listening(hub, gone)
        await listening(hub, stays)
        hub.forget(gone)
        assert hub.status.subscribers == 1
        hub.publish(warning())
        await hub.flush()
        assert (len(gone.frames), len(stays.frames)) == (0, 1)


async def test_a_closed_connection_does_not_count_and_is_dropped_when_an_event_comes(world: World) -> None:
    async with running(world.hub()) as hub:
        silent, told = FakeSink(), FakeSink()
        await listening(hub, silent)
        await listening(hub, told)
        silent.close()
        assert hub.status.subscribers == 1
        told.close()
        hub.publish(warning())
        await hub.flush()
        assert hub.status.subscribers == 0
        assert told.waiting == 0


async def test_a_connection_has_a_limited_number_of_subscriptions(world: World) -> None:
    async with running(world.hub()) as hub:
        sink = FakeSink()
        names = [await listening(hub, sink) for _ in range(MOST_PER_SINK)]
        with pytest.raises(TooManySubscriptions):
            await hub.subscribe(sink, Filter())
        await listening(hub, FakeSink())
        hub.unsubscribe(names[0], sink)
        await listening(hub, sink)


async def test_two_subscriptions_of_one_connection_are_told_apart(world: World) -> None:
    async with running(world.hub()) as hub:
        sink = FakeSink()
        names = [await listening(hub, sink) for _ in range(12)]
        hub.publish(warning())
        await hub.flush()
        assert sorted(params["subscription"] for params in sink.params) == sorted(names)


async def test_each_connection_gets_its_own_framing(world: World) -> None:
    def headers(body: bytes) -> bytes:
        return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)

    async with running(world.hub()) as hub:
        sinks = [FakeSink(framing=headers) if number % 2 else FakeSink() for number in range(24)]
        for sink in sinks:
            await listening(hub, sink)
        hub.publish(warning())
        await hub.flush()
    for number, sink in enumerate(sinks):
        (frame,) = sink.frames
        if number % 2:
            head, _, body = frame.partition(b"\r\n\r\n")
            assert head == b"Content-Length: %d" % len(body)
        else:
            body = frame.removesuffix(b"\n")
            assert frame == body + b"\n"
        assert json.loads(body)["params"]["subscription"] == f"s{number + 1}"


async def test_what_was_announced_is_committed_with_its_events_and_survives_a_kill(world: World) -> None:
    async with running(world.hub()) as hub:
        assert hub.announced("home") is None
        hub.publish_all([warning("decision"), warning("config")], Announced("home", b"state-1"))
        hub.publish_all([], Announced("other", b"state-2"))
        await hub.flush()
        assert (hub.announced("home"), hub.announced("other")) == (b"state-1", b"state-2")
        killed = world.as_after_a_kill("killed")
    async with running(killed.hub()) as hub:
        assert (hub.announced("home"), hub.announced("other"), hub.cursor.seq) == (b"state-1", b"state-2", 2)


async def test_audiences_that_are_not_announced_to_are_forgotten_at_last(world: World) -> None:
    async with running(world.hub()) as hub:
        for number in range(70):
            hub.publish_all([], Announced(f"home-{number}", b"state"))
            hub.publish_all([], Announced("home-0", b"state"))
        await hub.flush()
        assert hub.announced("home-0") == b"state"
        assert hub.announced("home-69") == b"state"
        assert hub.announced("home-1") is None
        hub.publish(warning())
        await hub.flush()
    log = open_log(world.place)
    log.abandon()
    assert len(log.opened.announced) == 64


async def test_revisions_rise_over_restarts_and_kills(world: World) -> None:
    async with running(world.hub()) as hub:
        told = [hub.next_revision() for _ in range(10_000)]
        await hub.flush()
        killed = world.as_after_a_kill("killed")
    assert told == list(range(1, 10_001))
    async with running(world.hub()) as hub:
        assert hub.next_revision() == 10_001
    async with running(killed.hub()) as hub:
        assert hub.next_revision() > 10_000


async def test_stopping_commits_and_tells_what_was_published_and_accepts_no_more(world: World) -> None:
    sink = FakeSink()
    hub = world.hub()
    async with running(hub):
        await listening(hub, sink)
        hub.publish(warning("last"))
        hub.stop()
        with pytest.raises(HubClosed):
            hub.publish(warning("late"))
    assert sink.numbers == [1]
    with pytest.raises(HubClosed):
        await hub.subscribe(sink, Filter())
    with pytest.raises(HubClosed):
        hub.next_revision()
    assert (hub.status.last_seq, hub.status.subscribers) == (1, 0)
    await hub.flush()
    await hub.room()
    assert hub.unsubscribe("s1", sink) is False
    hub.forget(sink)
    hub.start("s1")


async def test_a_hub_that_does_not_run_yet_accepts_nothing(world: World) -> None:
    with pytest.raises(HubClosed):
        world.hub().publish(warning())


async def test_cancelling_it_keeps_what_was_published(world: World) -> None:
    hub = world.hub()
    async with anyio.create_task_group() as tasks:
        await tasks.start(hub.run)
        for number in range(1000):
            hub.publish(warning(str(number)))
        tasks.cancel_scope.cancel()
    log = open_log(replace(world, boot_id="boot-2").place)
    log.abandon()
    assert (log.opened.epoch, log.last_seq) == ("epoch1", 1000)


async def test_a_subscription_while_the_hub_stops_has_an_end(world: World) -> None:
    async with running(world.hub()) as hub:
        hub.publish(warning("x" * 1_000_000))
        hub.stop()
        subscribed = await hub.subscribe(FakeSink(), Filter())  # waits for the last commit
    assert subscribed.cursor.seq == 1


async def test_more_than_memory_is_given_for_is_not_accepted_and_room_is_the_way_around(world: World) -> None:
    async with running(world.hub()) as hub:
        big = warning("x" * 1_000_000)
        accepted = 0
        while accepted < MOST_BYTES // 1_001_000:
            accepted = hub.publish(big)
        with pytest.raises(Overloaded):
            hub.publish_all([big, big])
        await hub.flush()
        assert hub.cursor.seq == accepted
        for _ in range(40):
            hub.publish(big)
            await hub.room()


async def test_params_that_are_no_object_are_refused_and_leave_no_hole(world: World) -> None:
    async with running(world.hub()) as hub:
        with pytest.raises(ValueError, match="one JSON object"):
            hub.publish_all([warning(), NewEvent("event", None, None, None, b"[]")])
        assert hub.publish(warning()) == 1


async def test_status_counts(world: World) -> None:
    async with running(world.hub()) as hub:
        await listening(hub, FakeSink())
        await listening(hub, FakeSink(), cursor=Cursor("other", 1))
        hub.publish(warning())
        await hub.flush()
        status = hub.status
        assert (status.epoch, status.last_seq, status.subscribers) == ("epoch1", 1, 2)
        assert status.bytes > 0
        assert (status.reason, status.notice) == (None, None)


def test_the_hub_is_made_outside_of_a_loop(world: World) -> None:
    assert isinstance(world.hub(), Hub)


async def test_the_first_event_that_can_be_told_is_where_a_stream_of_all_begins(world: World) -> None:
    async with running(world.hub()) as hub:
        assert hub.status.first_seq == 1
        for number in range(3):
            hub.publish(warning(str(number)))
        await hub.flush()
        assert hub.status.first_seq == 1
    another_boot = replace(world, boot_id="another")
    with closing(sqlite3.connect(world.path)) as db, db:
        db.execute("UPDATE meta SET value = 0 WHERE key = 'clean'")
    async with running(another_boot.hub()) as hub:
        assert hub.status.first_seq == 4  # what the epoch before told can be told to nobody
        hub.publish(warning("4"))
        await hub.flush()
        sink = FakeSink()
        await listening(hub, sink, cursor=Cursor(hub.cursor.epoch, hub.status.first_seq - 1))
        await sink.until_taken(1)
        assert sink.numbers == [4]

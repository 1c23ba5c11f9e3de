"""An event with a mark is told at most once, whatever happens to the daemon or its disk; numbers have no holes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cueloop_daemon.events import NewEvent
from cueloop_daemon.events.marks import Marks
from cueloop_daemon.events.model import Mark
from cueloop_daemon.events.sqlite import SCHEMA, SCHEMA_1, VERSION
from events.hubs import FakeSink, World, listening, running, warning
from events.test_degraded import Faulty


def marked(position: int, source: str = "state", run_id: str = "run-1") -> NewEvent:
    return replace(warning(f"{source} {position}", run_id), mark=Mark(run_id, source, position))


def told(sink: FakeSink) -> list[str]:
    return [params["event"]["message"] for params in sink.params]


async def test_what_was_told_is_not_told_again_and_takes_no_number(world: World) -> None:
    async with running(world.hub()) as hub:
        sink = FakeSink()
        await listening(hub, sink)
        assert [hub.publish(event) for event in (marked(1), marked(1), marked(2), warning("plain"), marked(2))] == [1, 1, 2, 3, 3]
        await hub.flush()
        assert told(sink) == ["state 1", "state 2", "plain"]
        assert sink.numbers == [1, 2, 3]


async def test_one_call_may_hold_what_was_told_and_what_was_not(world: World) -> None:
    async with running(world.hub()) as hub:
        sink = FakeSink()
        await listening(hub, sink)
        hub.publish_all([marked(1), marked(2)])
        assert hub.publish_all([marked(2), marked(3), marked(3), marked(2, "out")]) == 4
        assert hub.publish_all([marked(3)]) == 4
        await hub.flush()
        assert told(sink) == ["state 1", "state 2", "state 3", "out 2"]


async def test_a_killed_daemons_marks_hold_in_the_next_life(world: World) -> None:
    async with running(world.hub()) as hub:
        hub.publish_all([marked(1), marked(7, "out")])
        await hub.flush()
        killed = world.as_after_a_kill("killed")
        hub.publish(marked(2))  # not committed where the other life is killed
    async with running(killed.hub()) as hub:
        sink = FakeSink()
        await listening(hub, sink)
        hub.publish_all([marked(1), marked(2), marked(7, "out"), marked(8, "out")])
        await hub.flush()
        assert told(sink) == ["state 2", "out 8"]
        assert sink.numbers == [3, 4]


async def test_marks_hold_while_the_disk_is_full_and_after_it_has_room_again(world: World) -> None:
    faulty = Faulty()
    async with running(world.hub(connect=faulty.connect)) as hub:
        sink = FakeSink()
        await listening(hub, sink)
        hub.publish(marked(1))
        await hub.flush()
        faulty.failures = float("inf")
        hub.publish_all([marked(1), marked(2)])
        await hub.flush()
        hub.publish_all([marked(2), marked(3)])
        await hub.flush()
        assert hub.status.reason is not None
        faulty.failures = 0
        world.clock.now += 60
        hub.publish_all([marked(3), marked(4)])
        await hub.flush()
        assert hub.status.reason is None
        killed = world.as_after_a_kill("killed")
    async with running(killed.hub()) as hub:
        assert [hub.mark("run-1", "state"), hub.mark("run-1", "out")] == [4, -1]
        assert hub.publish(marked(3)) == hub.cursor.seq


async def test_marks_of_a_run_that_is_over_are_forgotten_for_good(world: World) -> None:
    async with running(world.hub()) as hub:
        hub.publish_all([marked(1), marked(1, "out"), marked(5, run_id="run-2")])
        hub.forget_marks("run-1")
        assert hub.marked_runs() == {"run-2"}
        await hub.flush()
    async with running(world.hub()) as hub:
        assert hub.marked_runs() == {"run-2"}
        assert hub.mark("run-2", "state") == 5


async def test_what_is_refused_is_not_marked(world: World) -> None:
    async with running(world.hub()) as hub:
        broken = replace(marked(1), params=b"[]")
        with pytest.raises(ValueError, match="one JSON object"):
            hub.publish(broken)
        assert hub.mark("run-1", "state") == -1
        assert hub.publish(marked(1)) == 1


async def test_a_log_of_the_version_without_marks_is_kept_and_gets_them(world: World) -> None:
    async with running(world.hub()) as hub:
        hub.publish(warning("old"))
        epoch = hub.cursor.epoch
    with closing(sqlite3.connect(world.path)) as db:
        db.execute("DROP TABLE marks")
        db.execute("PRAGMA user_version=1")
        db.commit()
        assert tuple(sql for (sql,) in db.execute("SELECT sql FROM sqlite_master ORDER BY rowid")) == SCHEMA_1
    async with running(world.hub()) as hub:
        assert (hub.cursor.epoch, hub.cursor.seq) == (epoch, 1)
        hub.publish(marked(1))
    with closing(sqlite3.connect(world.path)) as db:
        assert tuple(sql for (sql,) in db.execute("SELECT sql FROM sqlite_master ORDER BY rowid")) == SCHEMA
        assert db.execute("PRAGMA user_version").fetchone() == (VERSION,)
        assert db.execute("SELECT * FROM marks").fetchall() == [("run-1", "state", 1)]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), max_size=30), st.integers(1, 5))
def test_in_whatever_portions_it_is_published_each_position_is_told_once_and_in_order(
    wanted: list[tuple[str, int]], portion: int
) -> None:
    marks = Marks()
    seen: list[tuple[str, int]] = []
    for start in range(0, len(wanted), portion):
        fresh, made = marks.untold([marked(position, source) for source, position in wanted[start : start + portion]])
        marks.take(made)
        seen += [(event.mark.source, event.mark.position) for event in fresh if event.mark is not None]
    for source in "ab":
        positions = [position for name, position in seen if name == source]
        assert positions == sorted(set(positions))
        asked = [position for name, position in wanted if name == source]
        assert set(positions) == {at for i, at in enumerate(asked) if at > max(asked[:i], default=-1)}

"""Whatever happens in whatever order: a subscriber hears every event that it wants once and in order, or one gap.

Plays of random steps against a model that keeps every event: publishing, slow and stopped readers, connections that end and come
back with their cursor, clean restarts, kills, reboots, retention, damage.
"""

from __future__ import annotations

import json
import random
import tempfile
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cueloop_daemon.events import Filter, Hub, NewEvent
from cueloop_protocol.cursor import Cursor
from events.hubs import FakeSink, World, listening, output, running, warning

FILTERS = (
    Filter(),
    Filter(kinds=frozenset({"queue_snapshot"})),
    Filter(run_id="r1"),
    Filter(audience="a"),
    Filter(kinds=frozenset({"runner_output", "warning"}), run_id="r2", audience="b"),
)


@dataclass
class Reader:
    """A client: it keeps its cursor over connections, and remembers what it heard."""

    wanted: Filter
    cursor: Cursor | None = None
    sink: FakeSink | None = None
    heard: list[Any] = field(default_factory=list)

    async def connect(self, hub: Hub, room: float) -> None:
        if self.cursor is None:
            self.cursor = hub.cursor
        self.sink = FakeSink(room)
        await listening(hub, self.sink, self.wanted, self.cursor)

    def disconnect(self, hub: Hub) -> None:
        """What reached the connection is read; the cursor is that of the last of it."""
        if self.sink is not None:
            self.sink.close()
            hub.forget(self.sink)
            self.heard.extend(self.sink.messages)
            self.sink = None
        if self.heard:
            self.cursor = Cursor.parse(self.heard[-1]["params"]["cursor"])


@dataclass
class Play:
    world: World
    published: list[NewEvent] = field(default_factory=list)
    """The model: the event of seq n is at n - 1."""
    readers: list[Reader] = field(default_factory=lambda: [Reader(wanted) for wanted in FILTERS])
    can_fall_out: bool = False

    def check(self, reader: Reader, start: Cursor) -> None:
        """The heart of it. `start`: the cursor that the reader first had."""
        at = start
        for message in reader.heard:
            params = message["params"]
            cursor = Cursor.parse(params["cursor"])
            if message["method"] == "gap":
                start_of_gap = Cursor.parse(params["from"])
                assert params["to"] == params["cursor"]
                assert start_of_gap.epoch == at.epoch
                assert not any(self.is_wanted(reader.wanted, seq) for seq in range(at.seq + 1, start_of_gap.seq + 1))
                assert cursor.seq >= start_of_gap.seq >= at.seq
                assert cursor.epoch != at.epoch or self.can_fall_out
            else:
                assert cursor.epoch == at.epoch
                self.check_event(reader.wanted, at.seq, cursor.seq, message)
            at = cursor
        missed = [seq for seq in range(at.seq + 1, len(self.published) + 1) if self.is_wanted(reader.wanted, seq)]
        assert missed == []

    def check_event(self, wanted: Filter, after: int, seq: int, message: Any) -> None:
        """An event tells the row `seq`; rows before it may be passed over only if unwanted, or as output joined into it."""
        event = self.published[seq - 1]
        covered = [number for number in range(after + 1, seq + 1) if self.is_wanted(wanted, number)]
        assert covered
        assert covered[-1] == seq
        if len(covered) == 1:
            told = {key: value for key, value in message["params"].items() if key not in ("subscription", "cursor")}
            assert told == json.loads(event.params)
            return
        assert {self.published[number - 1].kind for number in covered} == {"runner_output"}
        text = "".join(json.loads(self.published[number - 1].params)["event"]["payload"]["text"] for number in covered)
        assert message["params"]["event"]["payload"]["text"] == text

    def is_wanted(self, wanted: Filter, seq: int) -> bool:
        event = self.published[seq - 1]
        if wanted.kinds is not None and event.method == "event" and event.kind not in wanted.kinds:
            return False
        if wanted.run_id is not None and event.run_id not in (None, wanted.run_id):
            return False
        return wanted.audience is None or event.audience in (None, wanted.audience)


def some_event(random: random.Random, number: int) -> NewEvent:
    run = random.choice([None, "r1", "r2"])
    match random.randrange(5):
        case 0:
            return output(f"{number} ", run_id=run or "r1")
        case 1:
            return NewEvent("run.finished", None, run or "r2", None, b'{"n": %d}' % number)
        case 2:
            return warning(f"{number}", kind="queue_snapshot")
        case _:
            return warning(f"{number} " + "x" * random.choice([0, 0, 500, 5000]), run, random.choice([None, "a", "b"]))


async def act(play: Play, hub: Hub, random: random.Random) -> None:
    """One step while the daemon lives."""
    reader = random.choice(play.readers)
    match random.randrange(8):
        case 0 | 1 | 2:
            events = [some_event(random, len(play.published) + number) for number in range(1, random.choice([2, 5, 60]))]
            play.published.extend(events)
            assert hub.publish_all(events) == len(play.published)
        case 3:
            await hub.flush()
        case 4:
            reader.disconnect(hub)
        case 5 if reader.sink is None:
            await reader.connect(hub, random.choice([0, 1, 10, float("inf")]))
        case 6 if reader.sink is not None:
            reader.sink.make_room(random.choice([0, 1, 10, float("inf")]))
        case _:
            for _ in range(random.randrange(20)):
                await anyio.lowlevel.checkpoint()


async def perform(play: Play, seed: int, lives: list[str]) -> None:
    """Several lives of the daemon, each ended in the given way, then one in which everybody catches up."""
    luck = random.Random(seed)
    starts: dict[int, Cursor] = {}
    for number, end in enumerate([*lives, "restart"]):
        async with AsyncExitStack() as stack:
            hub = await stack.enter_async_context(running(play.world.hub()))
            for index, reader in enumerate(play.readers):
                if number == 0 or end == "restart":
                    await reader.connect(hub, luck.choice([0, 3, float("inf")]))
                assert reader.cursor is not None
                starts.setdefault(index, reader.cursor)
            for _ in range(40):
                await act(play, hub, luck)
            await hub.flush()  # what is not committed when the process is killed was told to nobody
            if number == len(lives):
                await catch_up(play, hub)
            for reader in play.readers:
                reader.disconnect(hub)
            after = play.world.as_after_a_kill(f"life-{number + 1}")
        if end != "restart":
            play.world = replace(after, boot_id=f"boot-{number}") if end == "reboot" else after
    for index, reader in enumerate(play.readers):
        play.check(reader, starts[index])


async def catch_up(play: Play, hub: Hub) -> None:
    """Everybody who is away comes back, and nobody is slow any more."""
    for reader in play.readers:
        if reader.sink is None:
            await reader.connect(hub, float("inf"))
        reader.sink.make_room()  # type: ignore[union-attr]  # connected just now
    with anyio.fail_after(20):
        while hub.status.lagging:
            await anyio.lowlevel.checkpoint()


ENDS = st.lists(st.sampled_from(["restart", "kill", "reboot"]), min_size=1, max_size=4)
PLAYS = settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@PLAYS
@given(seed=st.integers(0, 2**32), lives=ENDS, limit=st.sampled_from([64 * 1024 * 1024, 96 * 1024]))
def test_every_event_once_in_order_or_one_gap(backend: str, seed: int, lives: list[str], limit: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "life-0").mkdir()
        world = World(Path(folder) / "life-0", limit=limit)
        play = Play(world, can_fall_out=limit < 1024 * 1024)
        anyio.run(perform, play, seed, lives, backend=backend)

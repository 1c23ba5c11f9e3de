"""The sign of life: each minute, ended before anybody else writes the session, and never louder than needed."""

from __future__ import annotations

import anyio
import pytest

from cueloop_daemon.runs.program.heartbeat import EVERY, with_heartbeat
from cueloop_daemon.runs.types import SessionWrite
from cueloop_daemon.store.not_writable import NotWritable
from cueloop_daemon.store.outcomes import OwnershipLost
from cueloop_protocol.documents.envelope import Event
from cueloop_protocol.documents.session import Session
from runs.program.played import START, session

SESSION = Session.model_validate_json(session())
FULL = NotWritable("Cannot write it: the disk is full.", "Free some space.", path="p")


class World:
    """As much of a world as a heartbeat needs. `results` are what the writes come to, the last one for ever."""

    def __init__(self, *results: SessionWrite | Exception) -> None:
        self.results = list(results) or [SessionWrite("etag")]
        self.sessions = self
        self.run = self
        self.params = self
        self.mode = "one"
        self.writes = 0
        self.writing = False
        self.said: list[str] = []
        self.written = anyio.Event()

    def now(self) -> object:
        return START

    async def save(self, written: Session) -> SessionWrite:
        assert written == SESSION
        self.writing = True
        with anyio.CancelScope(shield=True):  # a worker thread is waited for
            await anyio.lowlevel.checkpoint()
        self.writing = False
        self.writes += 1
        self.written.set()
        result = self.results.pop(0) if len(self.results) > 1 else self.results[0]
        if isinstance(result, Exception):
            raise result
        return result

    def say(self, event: Event) -> None:
        self.said.append(event.message or "")

    async def beat(self, body: object, every: float = 0.0) -> object:
        return await with_heartbeat(self, self, SESSION, body, every)  # type: ignore[arg-type]  # both in one

    async def after(self, writes: int) -> str:
        """A body that takes so many beats."""
        while self.writes < writes:
            await anyio.sleep(0)
        return "done"


@pytest.fixture(params=[pytest.param(("asyncio", {}), id="asyncio"), pytest.param(("trio", {}), id="trio")])
def anyio_backend(request: pytest.FixtureRequest) -> object:
    return request.param


def test_each_minute() -> None:
    assert EVERY == 60.0


async def test_beats_while_the_body_works_and_not_after() -> None:
    world = World()
    assert await world.beat(lambda: world.after(3)) == "done"
    writes = world.writes
    await anyio.sleep(0.001)
    assert (world.writes, world.writing, world.said) == (writes, False, [])


async def test_none_for_a_body_that_takes_less_than_a_minute() -> None:
    world = World()
    assert await world.beat(lambda: world.after(0), EVERY) == "done"
    assert world.writes == 0


async def test_a_write_under_way_is_waited_for() -> None:
    world = World()

    async def body() -> bool:
        while not world.writing:
            await anyio.sleep(0)
        return world.writing

    assert await world.beat(body) is True
    assert not world.writing


@pytest.mark.parametrize("error", [ValueError("from the body"), OwnershipLost("p"), NotWritable("m", "r", path="p")])
async def test_what_the_body_raises_comes_out_as_it_is(error: Exception) -> None:
    world = World()

    async def body() -> None:
        await world.after(1)
        raise error

    with pytest.raises(type(error)) as raised:
        await world.beat(body)
    assert raised.value is error


async def test_a_lost_repository_ends_the_body_at_once() -> None:
    world = World(OwnershipLost("p"))
    with pytest.raises(OwnershipLost):
        await world.beat(anyio.sleep_forever)


async def test_a_mistake_of_ours_is_not_swallowed() -> None:
    world = World(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        await world.beat(anyio.sleep_forever)


async def test_a_full_disk_is_said_once_until_it_is_over() -> None:
    fine = SessionWrite("etag")
    world = World(FULL, FULL, FULL, fine, FULL, fine)
    await world.beat(lambda: world.after(6))
    assert world.said == ["Cannot write it: the disk is full. Free some space."] * 2


async def test_what_others_wrote_is_told() -> None:
    world = World(SessionWrite("e", foreign=("/history/1",)), SessionWrite("e", deleted=True), SessionWrite("e"))
    await world.beat(lambda: world.after(3))
    assert world.said == [
        "Somebody else wrote the session file; theirs is kept as /history/1.",
        "Somebody removed the session file during the run; it was written again.",
    ]


async def test_the_end_of_the_daemon_ends_both() -> None:
    world = World()
    with anyio.CancelScope() as daemon:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(world.beat, anyio.sleep_forever)
            await world.written.wait()
            daemon.cancel()
    assert not world.writing

"""`session.clear` through the whole daemon, with another program that writes, or a disk that fails, at each single call of ours."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cueloop_daemon.store.etag import etag_of_bytes
from faults.systems import Call, Hooked
from support.app import serving
from support.repository import session
from support.wire import Refused, Wire
from support.world import World


@pytest.fixture
def world() -> Iterator[World]:
    world = World.make()
    try:
        yield world
    finally:
        assert world.close() == []


def _history(world: World) -> list[bytes]:
    return [path.read_bytes() for path in sorted((world.repository.ours / "history").glob("*")) if path.suffix != ".json"]


def _everywhere(world: World) -> list[bytes]:
    file = world.repository.session
    return [*_history(world), *([file.read_bytes()] if file.exists() else [])]


async def _calls(world: World) -> list[str]:
    """The names of the calls that one clearing makes."""
    system = Hooked()
    names: list[str] = []
    async with serving(world, system=system) as here:
        world.repository.put(world.repository.session, session(session_id="first"))

        def talk(wire: Wire) -> None:
            etag = wire.call("session.get", caller=world.caller)["etag"]
            before = len(system.calls)
            wire.call("session.clear", etag=etag)
            names.extend(call.name for call in system.calls[before:])

        await here.connected(talk)
    return names


async def test_another_writer_at_each_moment_loses_nothing_and_is_told(world: World) -> None:
    """It renames its own file into place, and where ours is given back, once more: then both cannot have the place."""
    count = len(await _calls(world))
    assert count > 5
    warned = conflicts = 0
    system = Hooked()
    async with serving(world, system=system) as here:
        for moment in range(count + 4):
            for again in (0, 1, 2):
                outcome = await _interrupted(here.connected, world, system, moment, again)
                conflicts += outcome == "conflict"
                warned += outcome == "warned"
    assert conflicts > 0
    assert warned > 0


async def _interrupted(connected: object, world: World, system: Hooked, moment: int, again: int) -> str:
    seen = session(session_id=f"seen-{moment}-{again}")
    world.repository.put(world.repository.session, seen)
    theirs = [session(session_id=f"theirs-{moment}-{again}-{number}") for number in range(2)]
    written: list[bytes] = []
    overwritten: list[bytes] = []
    start = len(system.calls)
    found: list[str] = []

    def write(data: bytes) -> None:
        file = world.repository.session
        if file.exists():
            overwritten.append(file.read_bytes())
        world.repository.put(file, data)
        written.append(data)

    def before(call: Call) -> None:
        number = call.number - start
        if number == moment:
            write(theirs[0])
        elif again and number == moment + again:
            write(theirs[1])

    def talk(wire: Wire) -> None:
        wire.subscribe(caller=world.caller, kinds=["warning"])
        system.before = before
        answer = wire.ask("session.clear", etag=etag_of_bytes(seen))
        system.before = lambda call: None
        assert answer.get("error", {"code": -32008})["code"] == -32008
        found.append("conflict" if "error" in answer else "cleared")
        kept = [data for data in written if data in _history(world)]
        for data in kept:
            if found[0] == "conflict":
                message = wire.event()["message"]
                assert str(world.repository.ours / "history") in message
                assert Path(message.rsplit("kept as ", 1)[1].rstrip(".")).read_bytes() == data
                found[0] = "warned"

    await connected(talk)  # type: ignore[operator]  # a bound method; its type would only be repeated here
    there = _everywhere(world)
    for data in (seen, *written):
        assert data in there or data in overwritten, (moment, again, json.loads(data)["session_id"])
    return found[0]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS], ids=errno.errorcode.get)
async def test_each_call_that_fails_leaves_the_session_or_its_copy_and_the_daemon_goes_on_a04(world: World, code: int) -> None:
    count = len(await _calls(world))
    system = Hooked()
    data = session(session_id="kept")
    async with serving(world, system=system) as here:
        for moment in range(count):
            world.repository.put(world.repository.session, data)
            start = len(system.calls)

            def fail(call: Call, at: int = start + moment) -> None:
                if call.number == at:
                    raise OSError(code, "injected", call.path)

            def talk(wire: Wire, fail: object = fail) -> None:
                system.before = fail  # type: ignore[assignment]  # the default argument binds this round's
                answer = wire.ask("session.clear", etag=etag_of_bytes(data))
                system.before = lambda call: None
                error = answer.get("error")
                assert error is None or error["code"] in (-32012, -32008), error
                assert "Traceback" not in json.dumps(answer)
                assert wire.call("config.resolve", caller=world.caller)["document"]["version"] == 5

            await here.connected(talk)
            assert data in _everywhere(world), f"call {moment}"


async def test_an_ownership_that_is_lost_writes_nothing(world: World) -> None:
    async with serving(world) as here:
        data = session()
        world.repository.put(world.repository.session, data)
        (world.repository.ours / "lock").unlink()
        (world.repository.ours / "lock").touch()

        def talk(wire: Wire) -> None:
            with pytest.raises(Refused) as refused:
                wire.call("session.clear", etag=etag_of_bytes(data))
            assert refused.value.code in (-32012, -32007)

        await here.connected(talk)
        assert world.repository.session.read_bytes() == data

"""A daemon ends in time whatever hangs, not under anybody who needs it, and touches nothing that a newer version has written."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from pathlib import Path

import anyio
import pytest

from cueloop_daemon import housekeeping
from cueloop_daemon.server.limits import Limits
from cueloop_daemon.takeover.succession import LEAVES_WITHIN
from fake_clock import FakeClock
from support.app import serving
from support.programs import python_program
from support.repository import git
from support.wire import SECONDS, Wire, wait_for
from support.world import Daemon, DidNotStart, World

HANGS = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nopen(HERE + '/asked', 'w').close()\nsignal.pause()\n"


@pytest.fixture
def anyio_backend() -> str:
    """As in production."""
    return "asyncio"


async def test_idle_is_nobody_connected_and_a_subscriber_is_somebody(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "EVERY", 0.01)
    clock = FakeClock()
    async with serving(world, clock=clock) as here:
        looks = 0

        def look(self: housekeeping.Housekeeping, now: float) -> None:
            nonlocal looks
            looks += 1

        monkeypatch.setattr(housekeeping.Housekeeping, "look", look)

        async def hours_pass() -> None:
            clock.advance(3 * 3600)
            until = looks + 3
            while looks < until and not here.daemon.leaving.draining:
                await anyio.sleep(0.01)

        def subscribed() -> Wire:
            wire = Wire(here.socket)
            wire.subscribe()
            return wire

        with anyio.fail_after(SECONDS):
            wire = await anyio.to_thread.run_sync(subscribed)
            await hours_pass()
            assert not here.daemon.leaving.draining
            wire.sock.close()
            while here.daemon.leaving.draining or looks < 0:
                await anyio.sleep(0.01)
            await hours_pass()
            while not here.daemon.leaving.draining:
                await hours_pass()


def start(world: World) -> tuple[Daemon, Path]:
    """A daemon in a git repository, and the folder that is first on its PATH."""
    folder = world.folder / "bin"
    folder.mkdir()
    git(world.repository.path, "init", "-q")
    return world.start(at_home=True, environ={"PATH": f"{folder}:{os.environ['PATH']}"}), folder


def ask_git(daemon: Daemon, folder: Path) -> Wire:
    """A caller whose answer waits for git, which hangs from now on and minds no TERM; `asked` says that it was called."""
    python_program(folder / "git", f"HERE = {str(folder)!r}\n{HANGS}", "-IS")
    wire = daemon.connect()
    wire.send(b'{"jsonrpc":"2.0","id":1,"method":"config.resolve","params":{"exact":true}}\n')
    wait_for(lambda: (folder / "asked").exists(), "git was asked")
    return wire


def test_a_stop_has_an_end_though_a_program_hangs(world: World) -> None:
    daemon, folder = start(world)
    with ask_git(daemon, folder) as wire:
        began = time.monotonic()
        daemon.send(signal.SIGTERM)
        assert daemon.process.wait(SECONDS) in (0, 70)
        assert time.monotonic() - began < Limits().grace + Limits().farewell + Limits().overdue + 3
        answer = wire.answer()  # git's own limit is as long as the grace
        assert "result" in answer or answer["error"]["data"]["name"] == "shutting_down"


def test_a_handover_waits_no_longer_than_its_own_grace(world: World) -> None:
    daemon, folder = start(world)
    with ask_git(daemon, folder) as wire:
        began = time.monotonic()
        heir = world.start(at_home=True, more=("--take-over", "refuse"))
        assert time.monotonic() - began < LEAVES_WITHIN
        error = wire.answer()["error"]
        assert (error["data"]["name"], error["data"]["reason"]) == ("shutting_down", "replaced")
    assert daemon.process.wait(SECONDS) in (0, 70)
    with heir.connect() as other:
        assert other.call("ping") == {}


@pytest.mark.parametrize("name", ["events.db", "runs.db"])
def test_what_a_newer_version_wrote_is_not_touched_and_the_ways_out_are_named(world: World, name: str) -> None:
    world.start(at_home=True).stop()
    folder = world.repository.ours
    with sqlite3.connect(folder / name) as db:
        db.execute("PRAGMA user_version=99")
    db.close()
    before = {path.name: path.read_bytes() for path in folder.iterdir() if ".db" in path.name}
    with pytest.raises(DidNotStart) as refused:
        world.start(at_home=True)
    error = refused.value.said["error"]
    assert (refused.value.code, error["code"], name in error["message"]) == (1, "version_mismatch", True)
    assert "format 99" in error["message"]
    assert "Update cueloop" in error["detail"]
    assert {path.name: path.read_bytes() for path in folder.iterdir() if ".db" in path.name} == before
    shown = world.run("--no-daemon", "session", "show", "--json")
    assert (shown.returncode, json.loads(shown.stdout)["state"]) == (0, "missing")

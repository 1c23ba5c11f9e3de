"""Ending shims that nobody knows of, or that do not answer, and clearing up behind dead ones; all with the real shim."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from cueloop_daemon.runs.shim import Ended, ShimRecord, Swept, clear_up, end_shim, end_unknown
from cueloop_daemon.runs.types import LockMade
from cueloop_protocol.identity import boot_id, process_start_time
from runs.shim_world import PATIENCE, ShimWorld, read_all, shim_world

AT = "2026-11-30T12:00:00.000000000Z"
STUBBORN = "trap '' INT TERM; echo $$ > pid; echo on; while :; do sleep 0.05; done"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ShimWorld]:
    with shim_world(tmp_path, run_id=f"o-{os.getpid()}-{abs(hash(str(tmp_path)))}") as made:
        yield made


async def at_work(world: ShimWorld, script: str = STUBBORN) -> None:
    """A shim with lock and child, and no daemon."""
    async with world.link() as link:
        assert isinstance(await link.lock(1, "run one", f"cueloopd run {world.run_id}", AT), LockMade)
        await link.start(world.order(2, script))
        with anyio.fail_after(PATIENCE):
            while not world.folder.sizes(2)[0]:
                await anyio.sleep(0.01)


def assert_nothing_is_left(world: ShimWorld) -> None:
    assert not world.folder.is_held()
    assert world.folder.is_buried()
    assert not world.lock.exists()
    assert not os.path.lexists(world.socket)
    assert process_start_time(int((world.home / "pid").read_text())) is None
    assert not [name for name in os.listdir(world.folder.fd) if name.endswith((".order", ".prompt", ".stdin"))]
    assert read_all(world.folder, 2) == b"on\n", "output stays"


async def test_f02_a_shim_that_no_record_knows_is_ended_with_its_child_and_lock(world: ShimWorld) -> None:
    await at_work(world)
    with anyio.fail_after(PATIENCE):
        (ended,) = await end_unknown(world.folders, frozenset(), world.means)
    assert (ended.run_id, ended.is_gone, ended.swept) == (world.run_id, True, Swept())
    assert ended.record.farewell == "end", "it was asked, and left by itself"
    assert ended.record.exits[2].cause == "signal"
    assert_nothing_is_left(world)
    assert await end_unknown(world.folders, frozenset(), world.means) == ()


async def test_a_shim_of_a_known_run_is_left_alone(world: ShimWorld) -> None:
    await at_work(world)
    assert await end_unknown(world.folders, frozenset({world.run_id}), world.means) == ()
    assert world.folder.is_held()
    async with world.link(generation=2) as link:
        assert (await link.status()).child is not None


async def test_folders_of_runs_that_are_over_are_no_shims(world: ShimWorld) -> None:
    world.folders.make("over-1").close()
    assert await end_unknown(world.folders, frozenset(), world.means) == ()
    found = world.folders.find("over-1")
    assert found is not None
    with contextlib.closing(found):
        assert not found.is_buried(), "nothing is done to them"


async def test_d29_a_shim_that_does_not_answer_is_ended_without_its_help(world: ShimWorld) -> None:
    """Stopped, so that neither a word nor a TERM reaches it: KILL, and its child is found by the tag."""
    await at_work(world)
    world.pause_shim()
    with anyio.fail_after(PATIENCE):
        ended = await end_shim(world.folder, world.means)
    assert ended.is_gone
    assert ended.lock_released
    assert ended.swept.left == ()
    assert any(name.split()[0] == (world.home / "pid").read_text().strip() for name in ended.swept.ended)
    assert_nothing_is_left(world)


async def test_a_shim_of_a_later_daemon_is_not_asked_but_told_by_signal(world: ShimWorld) -> None:
    """It refuses every word of ours; TERM is what every version of it understands."""
    await at_work(world)
    with anyio.fail_after(PATIENCE):
        ended = await end_shim(world.folder, replace(world.means, generation=0))
    assert ended.is_gone
    assert ended.record.is_cancelled
    assert_nothing_is_left(world)


async def test_a_dead_shim_is_cleared_up_behind(world: ShimWorld) -> None:
    await at_work(world)
    world.kill_shim()
    with anyio.fail_after(PATIENCE):
        while world.folder.is_held():
            await anyio.sleep(0.01)
        ended = await clear_up(world.folder, world.means)
    assert ended.is_gone
    assert ended.lock_released
    assert [one.number for one in ended.record.survivors] == [2]
    assert_nothing_is_left(world)
    again = await clear_up(world.folder, world.means)
    assert (again.is_gone, again.swept) == (True, Swept())


async def test_a_live_shim_is_not_cleared_up_behind(world: ShimWorld) -> None:
    await at_work(world)
    assert await clear_up(world.folder, world.means) == Ended(world.run_id, is_gone=False)
    assert world.folder.is_held()
    assert world.lock.exists()


async def test_f01_after_a_boot_no_number_on_record_is_believed(world: ShimWorld) -> None:
    """The child on record has the number and the start time of a process of today."""
    sleeper = await anyio.open_process(["sleep", "60"], start_new_session=True)
    try:
        for boot, is_ended in (("another-boot", False), (boot_id(), True)):
            told = process_start_time(sleeper.pid)
            Path(world.folder.path, "shim.jsonl").write_text(
                f'{{"up": {{"pid": 2, "start": "1", "boot": "{boot}"}}}}\n'
                f'{{"child": {{"n": 1, "pid": {sleeper.pid}, "start": "{told}"}}}}\n'
            )
            ended = await clear_up(world.folder, world.means)
            assert ended.record.boot == boot
            assert (process_start_time(sleeper.pid) is None) == is_ended
    finally:
        with contextlib.suppress(ProcessLookupError):
            sleeper.kill()
        await sleeper.aclose()


async def test_a_run_that_never_had_a_shim_is_cleared_up_too(world: ShimWorld) -> None:
    world.folder.write_caller_env({"KEY": "secret"})
    ended = await clear_up(world.folder, world.means)
    assert ended == Ended(world.run_id, True, ShimRecord(), Swept(), False)
    assert world.folder.caller_env() is None

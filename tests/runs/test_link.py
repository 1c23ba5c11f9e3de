"""The link, by one suite over two shims: the real one and the fake one of these tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from cueloop_daemon.runs.shim import Fenced, LinkClosed, ShimCancelled, ShimMistake, Superseded
from cueloop_daemon.runs.types import Exited, Grown, LockHeld, LockMade, NotStarted, Order, ShimGone, Started
from runs.shim_world import PATIENCE, Kind, ShimWorld, read_all, see_through, shim_world

AT = "2026-11-30T12:00:00.000000000Z"
WAITS = "trap 'exit 3' INT; echo on; while :; do sleep 0.05; done"


@pytest.fixture(params=["fake", "real"])
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param  # type: ignore[no-any-return]  # one of the two


@pytest.fixture
def world(tmp_path: Path, kind: Kind) -> Iterator[ShimWorld]:
    with shim_world(tmp_path, kind) as made:
        yield made


async def until_output(world: ShimWorld, number: int) -> None:
    with anyio.fail_after(PATIENCE):
        while not world.folder.sizes(number)[0]:
            await anyio.sleep(0.01)


async def test_a_child_is_started_followed_and_its_output_read(world: ShimWorld) -> None:
    async with world.link() as link:
        started = await link.start(world.order(1, "echo one; echo two >&2; exit 7"))
        assert isinstance(started, Started)
        assert started.pid > 1
        grown, ended = await see_through(link, 1)
    assert [one.out for one in grown] == sorted({one.out for one in grown} & {0, 4}), "each state once, as it grows"
    assert (ended.code, ended.signal, ended.cause, ended.out, ended.err) == (7, None, "self", 4, 4)
    assert (read_all(world.folder, 1), read_all(world.folder, 1, "err")) == (b"one\n", b"two\n")


async def test_e18_a_signal_is_told_apart_from_an_exit_code(world: ShimWorld) -> None:
    async with world.link() as link:
        await link.start(world.order(1, "kill -9 $$"))
        _, killed = await see_through(link, 1)
        await link.start(world.order(2, "exit 137"))
        _, exited = await see_through(link, 2)
    assert (killed.code, killed.signal, killed.cause) == (None, 9, "self")
    assert (exited.code, exited.signal, exited.cause) == (137, None, "self")


async def test_the_environment_is_exactly_the_orders(world: ShimWorld) -> None:
    """E14: what is missing in the order's environment is missing in the child's, whatever the run's caller had."""
    world.folder.write_caller_env({"CLAUDECODE": "1", "SECRET": "s"})
    async with world.link() as link:
        await link.start(world.order(1, "env | sort", COLOUR="blue"))
        await see_through(link, 1)
    names = {line.split(b"=")[0] for line in read_all(world.folder, 1).splitlines()}
    assert names - {b"PWD", b"OLDPWD", b"SHLVL", b"_"} == {b"COLOUR", b"CUELOOP_RUN_ID", b"PATH"}


async def test_e01_standard_input_is_a_file_and_ends(world: ShimWorld) -> None:
    async with world.link() as link:
        path = world.folder.write_stdin(1, b"say this\0and that")
        await link.start(world.order(1, "cat", stdin=path))
        await see_through(link, 1)
        await link.start(world.order(2, "cat; echo end"))
        await see_through(link, 2)
    assert read_all(world.folder, 1) == b"say this\0and that"
    assert read_all(world.folder, 2) == b"end\n"


async def test_the_same_number_again_tells_and_never_starts_twice(world: ShimWorld) -> None:
    order = world.order(1, "echo x >> count; exit 3")
    async with world.link() as link:
        first = await link.start(order)
        _, ended = await see_through(link, 1)
        assert await link.start(order) == first
        assert await see_through(link, 1) == ([], ended)
    async with world.link(generation=2) as link:
        assert await link.start(order) == first
        assert (await see_through(link, 1))[1] == ended
    assert (world.home / "count").read_text() == "x\n"


async def test_another_order_under_the_same_number_is_a_mistake(world: ShimWorld) -> None:
    async with world.link() as link:
        await link.start(world.order(1, "true"))
        await see_through(link, 1)
        other = Order(1, "other", "agent", ("/bin/false",), {}, None, None, None, 1.0)
        with pytest.raises(ShimMistake, match="conflict"):
            await link.start(other)


async def test_what_cannot_be_executed_was_not_started(world: ShimWorld) -> None:
    """E13: a program that is missing is an answer, not a failure of the run's machinery."""
    async with world.link() as link:
        missing = Order(1, "t", "agent", ("/nowhere/agent",), {}, None, None, None, 1.0)
        assert await link.start(missing) == NotStarted("exec", 2)
        assert await link.start(missing) == NotStarted("exec", 2)
        await link.start(world.order(2, "true"))
        assert (await see_through(link, 2))[1].code == 0


async def test_signal_returns_when_the_child_is_gone(world: ShimWorld) -> None:
    async with world.link() as link:
        await link.start(world.order(1, WAITS))
        await until_output(world, 1)
        await link.signal(1, 5.0)
        assert (await link.status()).child is None
        _, ended = await see_through(link, 1)
        await link.signal(1, 5.0)
    assert (ended.code, ended.cause) == (3, "signal")


async def test_e04_an_agent_that_ignores_everything_is_killed_within_the_grace(world: ShimWorld) -> None:
    async with world.link() as link:
        await link.start(world.order(1, "trap '' INT TERM; echo on; while :; do sleep 0.05; done"))
        await until_output(world, 1)
        before = anyio.current_time()
        await link.signal(1, 0.4)
        assert anyio.current_time() - before < 3.0
        _, ended = await see_through(link, 1)
    assert (ended.code, ended.signal, ended.cause) == (None, 9, "signal")


async def test_e04_cancel_twice_and_at_once(world: ShimWorld) -> None:
    async with world.link() as link:
        await link.start(world.order(1, WAITS))
        await until_output(world, 1)
        async with anyio.create_task_group() as tasks:
            for grace in (5.0, 5.0, 0.5):
                tasks.start_soon(link.signal, 1, grace)
        assert (await link.status()).child is None


async def test_a_number_that_was_ended_before_its_start_never_starts(world: ShimWorld) -> None:
    """Cancel during start: whichever comes first, nothing runs afterwards."""
    async with world.link() as link:
        await link.signal(1, 1.0)
        assert await link.start(world.order(1, "touch ran")) == NotStarted("barred", 0)
        await link.end_child(1.0)
    assert not (world.home / "ran").exists()


async def test_end_child_finds_the_child_of_an_earlier_life(world: ShimWorld) -> None:
    async with world.link() as link:
        await link.start(world.order(4, WAITS))
        await until_output(world, 4)
    async with world.link(generation=2) as link:
        await link.end_child(1.0)
        assert (await link.status()).child is None
        await link.end_child(1.0)


async def test_e03_a_later_daemon_follows_the_child_of_an_earlier_one(world: ShimWorld) -> None:
    order = world.order(1, "echo one; while [ ! -e go ]; do sleep 0.02; done; echo two")
    async with world.link() as link:
        first = await link.start(order)
        await until_output(world, 1)
    (world.home / "go").touch()
    async with world.link(generation=2) as link:
        assert await link.start(order) == first
        _, ended = await see_through(link, 1)
    assert (ended.code, read_all(world.folder, 1)) == (0, b"one\ntwo\n")


async def test_the_end_is_heard_although_the_connection_broke_meanwhile(world: ShimWorld) -> None:
    """A follower of generation 1 loses its connection to generation 1 of the same number: the latest is listened to."""
    async with world.link() as link:
        await link.start(world.order(1, "while [ ! -e go ]; do sleep 0.02; done; echo done"))
        news = link.follow(1)
        assert await anext(news) == Grown(0, 0)
        with anyio.move_on_after(0.05):
            await anext(news)  # cancelled, and nothing is lost by it
        (world.home / "go").touch()
        *_, last = [one async for one in news]
        assert isinstance(last, Exited)
        assert last.out == 5


async def test_the_lock_is_taken_held_and_let_go(world: ShimWorld) -> None:
    async with world.link() as link:
        made = await link.lock(1, "run one", f"cueloopd run {world.run_id}", AT)
        assert isinstance(made, LockMade)
        assert (world.lock / "owner").read_bytes() == made.owner
        assert b"label: run one\n" in made.owner
        assert world.lock.stat().st_ino == made.inode
        assert await link.lock(2, "run one", f"cueloopd run {world.run_id}", AT) == made
        await link.unlock(3)
        assert not world.lock.exists()
        await link.unlock(4)


async def test_f02_a_dead_holders_lock_is_cleared(world: ShimWorld) -> None:
    world.lock.mkdir()
    (world.lock / "owner").write_text("pid: 2147483646\nlabel: queue import\n")
    async with world.link() as link:
        assert isinstance(await link.lock(1, "run one", "c", AT), LockMade)
        await link.unlock(2)


async def test_a_living_holders_lock_stays(world: ShimWorld) -> None:
    world.lock.mkdir()
    owner = world.lock / "owner"
    owner.write_text(f"pid: {os.getppid()}\nlabel: queue import\nstarted_at: {AT}\n")
    async with world.link() as link:
        assert await link.lock(1, "run one", "c", AT) == LockHeld(os.getppid(), "queue import", AT, True)
    assert owner.exists()


async def test_a_lock_without_an_owner_is_nobodys_to_clear(world: ShimWorld) -> None:
    world.lock.mkdir()
    async with world.link() as link:
        assert await link.lock(1, "run one", "c", AT) == LockHeld(None, None, None, False)
    assert world.lock.exists()


async def test_a_dead_holders_live_helper_keeps_the_lock(world: ShimWorld) -> None:
    world.lock.mkdir()
    (world.lock / "owner").write_text("pid: 2147483646\nlabel: task\n")
    (world.lock / f"owner_task_{os.getppid()}_1").write_text("")
    async with world.link() as link:
        assert await link.lock(1, "run one", "c", AT) == LockHeld(os.getppid(), None, None, True)
    assert [path.name for path in world.lock.iterdir()] == [f"owner_task_{os.getppid()}_1"]


async def test_f01_a_dead_runs_lock_is_cleared_although_its_pid_lives_again(world: ShimWorld) -> None:
    dead = world.folders.make("dead-run")
    dead.close()
    world.lock.mkdir()
    (world.lock / "owner").write_text(f"pid: {os.getppid()}\ncommand: cueloopd run dead-run\n")
    async with world.link() as link:
        assert isinstance(await link.lock(1, "run one", "c", AT), LockMade)
        await link.unlock(2)


async def test_what_is_acknowledged_is_forgotten(world: ShimWorld) -> None:
    async with world.link() as link:
        await link.start(world.order(1, "true"))
        await see_through(link, 1)
        await link.acknowledge(1)
        assert (await link.status()).orders == {}


async def test_limits_can_be_set_on_any_number(world: ShimWorld) -> None:
    async with world.link() as link:
        await link.limits(1, leave_within=30.0)
        await link.start(world.order(1, "true"))
        await see_through(link, 1)


async def test_end_is_refused_with_a_child_or_a_lock_and_done_without(world: ShimWorld) -> None:
    async with world.link() as link:
        await link.lock(1, "run one", "c", AT)
        assert not await link.end()
        await link.unlock(2)
        await link.start(world.order(3, WAITS))
        assert not await link.end()
        await link.end_child(1.0)
        assert await link.end()
        assert link.lost.is_set()
        assert await link.end()
        with pytest.raises(ShimGone):
            await link.status()
    assert not world.folder.is_held()


async def test_everybody_hears_that_the_shim_is_gone(world: ShimWorld) -> None:
    gone: list[str] = []
    async with world.link() as link:
        await link.start(world.order(1, "trap '' INT TERM; echo on; while :; do sleep 0.05; done"))
        await until_output(world, 1)

        async def follow() -> None:
            with pytest.raises(ShimGone):
                await see_through(link, 1)
            gone.append("follow")

        async def signal() -> None:
            with pytest.raises(ShimGone):
                await link.signal(1, 60.0)
            gone.append("signal")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            tasks.start_soon(signal)
            await anyio.wait_all_tasks_blocked()
            await link.status()  # answered in order: the shim has the signal's wish, which it answers when the child is gone
            world.kill_shim()
            await link.lost.wait()
        with pytest.raises(ShimGone):
            await link.signal(1, 60.0)
    assert sorted(gone) == ["follow", "signal"]


async def test_a_term_to_the_shim_is_a_cancel(world: ShimWorld) -> None:
    async with world.link() as link:
        await link.status()
        world.term_shim()
        await link.cancelled.wait()
        with pytest.raises(ShimCancelled):
            await link.lock(1, "run one", "c", AT)
        assert await link.start(world.order(2, "touch ran")) == NotStarted("barred", 0)
    async with world.link(generation=2) as link:
        assert link.cancelled.is_set() or (await link.status()).cancelled
    assert not (world.home / "ran").exists()


async def test_the_later_daemon_has_the_shim(world: ShimWorld) -> None:
    async with world.link(1) as old, world.link(2) as new:
        await new.status()
        with pytest.raises(Fenced):
            await old.status()
        assert not old.lost.is_set()
        assert (await new.status()).child is None
    assert world.heard == [Superseded()]


async def test_an_earlier_daemon_does_not_get_the_shim(world: ShimWorld) -> None:
    async with world.link(generation=5):
        pass
    with pytest.raises(Fenced):
        await world.ensure()


async def test_calls_end_when_this_daemon_leaves(world: ShimWorld) -> None:
    async with world.link() as link:
        await link.start(world.order(1, WAITS))
        news = link.follow(1)
        await anext(news)
    with pytest.raises(LinkClosed):
        await link.status()
    with pytest.raises(LinkClosed):
        _ = [one async for one in news]
    assert not link.lost.is_set(), "the shim carries on"
    assert world.folder.is_held()

"""The end of a server: told, drained, and over in a time that is known beforehand."""

from __future__ import annotations

import dataclasses
import os
import threading

import anyio
import pytest

from cueloop_daemon.server import Listener, Server
from cueloop_protocol import codes
from server.world import QUICK, TABLE, FixedClock, World, code, serving

FAREWELL = {"jsonrpc": "2.0", "method": "daemon.closing", "params": {"reason": "upgrade"}}


async def test_each_connection_is_told_why_and_the_name_is_gone() -> None:
    async with serving() as running, running.client() as first, running.client() as second:
        for client in (first, second):
            await client.call("ping")
        running.server.close("upgrade")
        running.server.close("idle")
        for client in (first, second):
            assert await client.next() == FAREWELL
            assert await client.ended()
        assert not os.path.exists(running.path)


async def test_what_is_under_way_ends_and_what_comes_is_refused() -> None:
    async with serving(dataclasses.replace(QUICK, grace=30)) as running, running.client() as client:
        await client.ask("wait", "w", name="a")
        await running.world.begins("a").wait()
        running.server.close("upgrade")
        assert await client.next() == FAREWELL
        assert code(await client.call("ping")) == codes.SHUTTING_DOWN
        await client.send([{"jsonrpc": "2.0", "id": 1, "method": "durableWrite", "params": {"name": "x"}}])
        assert [code(answer) for answer in await client.next()] == [codes.SHUTTING_DOWN]
        running.world.gate("a").set()
        assert (await client.next())["result"] == {"name": "a"}
        assert await client.ended()
        assert "write x" not in running.world.told


async def test_a_call_may_still_be_withdrawn() -> None:
    async with serving(dataclasses.replace(QUICK, grace=30)) as running, running.client() as client:
        await client.ask("wait", "w", name="a")
        await running.world.begins("a").wait()
        running.server.close("upgrade")
        await client.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": "w"}})
        assert await client.next() == FAREWELL
        assert code(await client.next()) == codes.CANCELLED


async def test_the_reply_to_a_stop_comes_before_the_farewell() -> None:
    async with serving() as running, running.client() as client:
        await client.ask("stop", "s")
        assert (await client.next())["id"] == "s"
        assert (await client.next())["method"] == "daemon.closing"
        assert await client.ended()


@pytest.mark.parametrize("method", ["wait", "durable"])
async def test_what_does_not_end_by_itself_is_cancelled_after_the_grace(method: str) -> None:
    with anyio.fail_after(20):
        async with serving(dataclasses.replace(QUICK, grace=0.05)) as running, running.client() as client:
            await client.ask(method, "w", name="a")
            await running.world.begins("a").wait()
            running.server.close("stopped")
            assert (await client.next())["method"] == "daemon.closing"
            if method == "wait":  # it only read; of the other nobody can say that nothing was done
                assert code(await client.next()) == codes.SHUTTING_DOWN
            assert await client.ended()
        assert running.world.told[-1] == "cancelled a"


async def test_a_durable_call_whose_client_went_is_waited_for() -> None:
    async with serving(dataclasses.replace(QUICK, grace=30)) as running:
        async with running.client() as client:
            await client.ask("durable", name="a")
            await running.world.begins("a").wait()
        async with running.client() as other:
            while running.server.connections > 1:
                await other.call("ping")
            running.server.close("stopped")
            assert (await other.next())["method"] == "daemon.closing"
            running.world.gate("a").set()
            assert await other.ended()
        assert running.world.told[-1] == "handle a"


async def test_a_peer_that_does_not_read_delays_the_end_by_no_more_than_the_farewell() -> None:
    async with serving(dataclasses.replace(QUICK, grace=3600, farewell=0.05)) as running, running.client() as client:
        await client.ask("big", text="x", times=5_000_000)
        async with running.client() as other:
            while "made" not in running.world.told:
                await other.call("ping")
        with anyio.fail_after(20):
            running.server.close("stopped")
            while running.server.connections:
                await anyio.lowlevel.checkpoint()


async def test_a_silent_connection_is_told_too() -> None:
    async with serving() as running, running.client() as client, running.client() as other:
        await other.call("ping")
        running.server.close("upgrade")
        assert await client.next() == FAREWELL


async def test_who_came_and_was_not_let_in_yet_is_told_too() -> None:
    """In the kernel's queue, and in ours while it waits for a place among those that have not spoken."""
    async with serving(dataclasses.replace(QUICK, unspoken=1, patience=3600)) as running, running.client() as talker:
        await talker.call("ping")
        async with running.client() as first:
            while running.server.counters()["connections_silent"] != 1:
                await talker.call("ping")
            async with running.client() as second, running.client() as third:
                await talker.call("ping")
                async with running.client() as fourth:
                    running.server.close("upgrade")
                    for client in (first, second, third, fourth):
                        assert await client.next() == FAREWELL


@pytest.mark.parametrize("sent", [b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n' * 3, b'{"jsonrpc":"2.0"'])
async def test_what_lies_in_a_connection_when_its_input_ends_is_answered(sent: bytes) -> None:
    """Whole requests and the beginning of one; who sends after that is told by the system."""
    async with serving(dataclasses.replace(QUICK, in_flight=1, grace=0.05)) as running, running.client() as client:
        await client.ask("wait", "w", name="a")  # nothing is read behind this
        await running.world.begins("a").wait()
        await client.raw(sent)
        running.server.close("stopped")
        answers = [await client.next() for _ in range(2 + max(1, sent.count(b"\n")))]
        assert answers[0]["method"] == "daemon.closing"
        assert answers[1]["id"] == "w"
        assert [code(answer) for answer in answers[1:]] == [codes.SHUTTING_DOWN] * (len(answers) - 1)
        assert await client.ended()


async def test_with_an_heir_name_and_queue_are_left_as_they_are() -> None:
    async with serving() as running, running.client() as client:
        await client.call("ping")
        fd, identity = running.listener.duplicate(), running.listener.identity
        assert identity is not None
        running.server.close("replaced", has_heir=True)
        assert (await client.next())["params"]["reason"] == "replaced"
        assert await client.ended()
        async with running.client() as waiting:  # in the queue: nobody accepts
            await waiting.ask("ping", 7)
            heir = Listener.inherit(fd, running.path, identity)
            async with anyio.create_task_group() as tasks:
                server = Server(TABLE, World(), clock=FixedClock(), uid=os.getuid(), limits=QUICK)
                await tasks.start(server.serve, heir)
                assert (await waiting.next())["id"] == 7
                assert heir.still_ours()
                server.close("stopped")
        assert not os.path.exists(running.path)


async def test_the_end_of_the_surrounding_scope_ends_everything() -> None:
    async with serving() as running, running.client() as client:
        await client.ask("wait", name="a")
        await running.world.begins("a").wait()
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                path = f"{os.path.dirname(running.path)}/e.sock"
                limits = dataclasses.replace(QUICK, unspoken=1, patience=3600)
                server = Server(TABLE, World(), clock=FixedClock(), uid=os.getuid(), limits=limits)
                await tasks.start(server.serve, Listener.bind(path))
                waiting = await anyio.connect_unix(path)
                async with await anyio.connect_unix(path):
                    while not server.connections:
                        await client.send({"jsonrpc": "2.0", "method": "ping"})
                    tasks.cancel_scope.cancel()
        with pytest.raises(anyio.EndOfStream):
            await waiting.receive()
        await waiting.aclose()
        assert not os.path.exists(path)
        assert server.connections == 0


async def test_what_hangs_so_that_nothing_helps_is_reported_from_outside_the_loop() -> None:
    """A call blocks the loop itself; only another thread can still tell, and here it also ends the block."""
    unblock = threading.Event()
    limits = dataclasses.replace(QUICK, grace=0.05, overdue=0.05)
    async with serving(limits, overdue=unblock.set) as running, running.client() as client:
        await client.call("ping")
        running.server.close("stopped")
        assert unblock.wait(20)


async def test_an_end_in_time_is_not_reported() -> None:
    reported = threading.Event()
    limits = dataclasses.replace(QUICK, grace=0.05, overdue=0.05, farewell=0.01)
    async with serving(limits, overdue=reported.set) as running, running.client() as client:
        await client.call("ping")
        timers = [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
        running.server.close("stopped")
        made = [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer) and thread not in timers]
    for timer in made:
        timer.join(20)
    assert len(made) == 1
    assert not reported.is_set()


async def test_counters_tell_what_was_done() -> None:
    async with serving() as running, running.client() as client:
        for _ in range(3):
            await client.call("ping")
        assert running.server.counters() == {
            "connections": 1,
            "connections_silent": 0,
            "connections_total": 1,
            "connections_refused": 0,
            "requests_total": 3,
        }

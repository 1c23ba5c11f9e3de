"""What ends a call before its answer, and what does not."""

from __future__ import annotations

import pytest

from cueloop_protocol import codes
from server.world import Client, Running, code, serving


async def cancel(client: Client, key: object) -> None:
    await client.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": key}})


async def until(running: Running, word: str) -> None:
    """Until `word` was told; each look is a round trip through the server."""
    async with running.client() as other:
        while word not in running.world.told:
            await other.call("ping")


@pytest.mark.parametrize("key", [1, 0, "", "a", 1.5, None])
async def test_a_waiting_call_is_cancelled_by_its_id_and_leaves_nothing(key: object) -> None:
    async with serving() as running, running.client() as client:
        await client.ask("wait", key, name="a")
        await running.world.begins("a").wait()
        await cancel(client, key)
        answer = await client.next()
        assert (answer["id"], code(answer)) == (key, codes.CANCELLED)
        assert running.world.told == ["prepare a", "cancelled a"]


async def test_a_cancel_in_the_same_write_reaches_a_call_that_has_not_had_its_turn() -> None:
    async with serving() as running, running.client() as client:
        await client.raw(
            b'{"jsonrpc":"2.0","id":1,"method":"wait","params":{"name":"a"}}\n'
            b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}\n'
        )
        assert code(await client.next()) == codes.CANCELLED
        assert "handle a" not in running.world.told


@pytest.mark.parametrize(("key", "other"), [(1, 1.0), (1, "1"), (1, True), (0, False), (1, None), ("a", "b"), (1, [1]), (1, {})])
async def test_another_id_cancels_nothing(key: object, other: object) -> None:
    async with serving() as running, running.client() as client:
        await client.ask("wait", key, name="a")
        await running.world.begins("a").wait()
        await cancel(client, other)
        await client.send({"jsonrpc": "2.0", "method": "$/cancelRequest"})
        await client.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": [key]})
        assert (await client.call("ping"))["result"] == {}
        running.world.gate("a").set()
        assert (await client.next())["result"] == {"name": "a"}


async def test_a_call_of_another_connection_is_not_cancelled() -> None:
    async with serving() as running, running.client() as client, running.client() as other:
        await client.ask("wait", 1, name="a")
        await running.world.begins("a").wait()
        await cancel(other, 1)
        assert (await other.call("ping"))["result"] == {}
        running.world.gate("a").set()
        assert (await client.next())["result"] == {"name": "a"}


async def test_an_id_that_is_under_way_twice_is_cancelled_twice() -> None:
    async with serving() as running, running.client() as client:
        for name in ("a", "b"):
            await client.ask("wait", 1, name=name)
            await running.world.begins(name).wait()
        await cancel(client, 1)
        assert [code(await client.next()) for _ in range(2)] == [codes.CANCELLED] * 2
        await cancel(client, 1)
        assert (await client.call("ping"))["result"] == {}


async def test_a_request_to_cancel_that_wants_an_answer_is_an_unknown_method() -> None:
    async with serving() as running, running.client() as client:
        assert code(await client.call("$/cancelRequest", id=1)) == codes.METHOD_NOT_FOUND


async def test_a_write_that_has_begun_is_finished_and_answered() -> None:
    async with serving() as running, running.client() as client:
        await client.ask("write", 1, name="a")
        await running.world.begins("a").wait()
        await cancel(client, 1)
        assert (await client.call("ping"))["result"] == {}
        running.world.gate("a").set()
        assert (await client.next())["result"] == {"written": "a"}


async def test_a_write_that_has_not_begun_is_cancelled_whole() -> None:
    async with serving() as running, running.client() as client:
        await client.raw(
            b'{"jsonrpc":"2.0","id":1,"method":"write","params":{"name":"a"}}\n'
            b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}\n'
        )
        assert code(await client.next()) == codes.CANCELLED
        assert running.world.told == []


async def test_a_closed_connection_cancels_what_only_reads() -> None:
    async with serving() as running:
        async with running.client() as client:
            await client.ask("wait", name="a")
            await running.world.begins("a").wait()
        await until(running, "cancelled a")
        assert "handle a" not in running.world.told


async def test_a_closed_connection_does_not_cut_a_write_in_two() -> None:
    async with serving() as running:
        async with running.client() as client:
            await client.ask("write", name="a")
            await running.world.begins("a").wait()
        running.world.gate("a").set()
        await until(running, "written a")


@pytest.mark.parametrize("how", ["cancelled", "closed"])
async def test_a_durable_call_outlives_both(how: str) -> None:
    async with serving() as running:
        async with running.client() as client:
            await client.ask("durable", 1, name="a")
            await running.world.begins("a").wait()
            if how == "cancelled":
                await cancel(client, 1)
                assert (await client.call("ping"))["result"] == {}
                running.world.gate("a").set()
                assert (await client.next())["result"] == {"name": "a"}
        async with running.client() as other:
            assert (await other.call("ping"))["result"] == {}
        running.world.gate("a").set()
        await until(running, "handle a")
        assert "cancelled a" not in running.world.told


async def test_a_stop_is_done_even_if_its_caller_does_not_wait_for_the_answer() -> None:
    async with serving() as running:
        async with running.client() as client:
            await client.ask("stop")
        async with running.client() as other:
            while not running.server.is_closing:
                await other.call("ping")

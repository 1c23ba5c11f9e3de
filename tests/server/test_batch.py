"""Batches (D21)."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import anyio
import pytest

from cueloop_daemon.server.limits import Limits
from cueloop_protocol import codes
from cueloop_protocol.framing import HEADERS, LINES, Kind
from server.world import QUICK, code, serving


def request(method: str, key: object = 1, **params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": key, "method": method, "params": params}


def note(method: str, **params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


@pytest.mark.parametrize("kind", [LINES, HEADERS])
async def test_d21_each_item_is_judged_by_itself_and_the_answers_are_joined(kind: Kind) -> None:
    async with serving() as running, running.client(kind) as client:
        await client.send(
            [
                1,
                request("ping", "a"),
                note("ping"),
                {"foo": "boo"},
                request("nope", None),
                [request("ping")],
                request("echo", 1.5, text=1),
                request("echo", 0, text="x"),
                None,
            ]
        )
        answers = await client.next()
        assert [(answer["id"], answer.get("result", answer.get("error", {}).get("code"))) for answer in answers] == [
            (None, codes.INVALID_REQUEST),
            ("a", {}),
            (None, codes.INVALID_REQUEST),
            (None, codes.METHOD_NOT_FOUND),
            (None, codes.INVALID_REQUEST),
            (1.5, codes.INVALID_PARAMS),
            (0, {"text": "x"}),
            (None, codes.INVALID_REQUEST),
        ]


async def test_d21_an_empty_batch_is_one_error_and_no_list() -> None:
    async with serving() as running, running.client() as client:
        await client.send([])
        answer = await client.next()
        assert (answer["id"], code(answer)) == (None, codes.INVALID_REQUEST)


async def test_d21_a_batch_of_one_invalid_item_is_a_list() -> None:
    async with serving() as running, running.client() as client:
        await client.send([1])
        [answer] = await client.next()
        assert (answer["id"], code(answer)) == (None, codes.INVALID_REQUEST)


async def test_d21_only_notifications_are_not_answered() -> None:
    async with serving() as running, running.client() as client:
        await client.send([note("ping"), note("nope"), note("broken"), note("wait", name="a")])
        await running.world.begins("a").wait()
        running.world.gate("a").set()
        await client.send([request("ping", "next")])
        assert [answer["id"] for answer in await client.next()] == ["next"]


async def test_d21_ten_thousand_items_are_answered_and_others_have_their_turn() -> None:
    async with serving() as running, running.client() as client, running.client() as other:
        items = [request("ping", number) for number in range(10_000)]
        answered_meanwhile, is_over = 0, False
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.send, items)

            async def meanwhile() -> None:
                nonlocal answered_meanwhile
                while not is_over:
                    await other.call("ping")
                    answered_meanwhile += 1

            tasks.start_soon(meanwhile)
            answers = await client.next()
            is_over = True
        assert [answer["id"] for answer in answers] == list(range(10_000))
        assert answered_meanwhile > 10


async def test_d21_a_longer_batch_is_refused_whole() -> None:
    async with serving(dataclasses.replace(QUICK, batch_items=3)) as running, running.client() as client:
        await client.send([request("farewell", name="x")] * 4)
        assert code(await client.next()) == codes.INVALID_REQUEST
        assert (await client.call("ping"))["result"] == {}
        assert running.world.peers[0].farewells == []


async def test_d21_an_answer_that_becomes_too_large_stops_making_calls_and_says_so() -> None:
    async with serving(dataclasses.replace(QUICK, batch_bytes=1000)) as running, running.client() as client:
        await client.send([request("big", number, text="x", times=600) for number in range(5)] + [note("ping")])
        answers = await client.next()
        assert ["result" in answer for answer in answers] == [True, True, False, False, False]
        assert {code(answer) for answer in answers[2:]} == {codes.LIMIT_EXCEEDED}
        assert running.world.told == ["made", "made"]
        assert len(running.world.peers) == 1


async def test_d21_calls_that_wait_are_made_one_after_the_other() -> None:
    async with serving() as running, running.client() as client:
        await client.send([request("wait", "a", name="a"), request("wait", "b", name="b")])
        await running.world.begins("a").wait()
        assert "prepare b" not in running.world.told
        running.world.gate("b").set()
        running.world.gate("a").set()
        assert [answer["result"] for answer in await client.next()] == [{"name": "a"}, {"name": "b"}]


async def test_a_call_in_a_batch_is_cancelled_by_its_id_alone() -> None:
    async with serving() as running, running.client() as client:
        await client.send([request("wait", "a", name="a"), request("ping", "b")])
        await running.world.begins("a").wait()
        await client.send(note("$/cancelRequest", id="a"))
        first, second = await client.next()
        assert code(first) == codes.CANCELLED
        assert second["result"] == {}


async def test_a_batch_may_cancel_a_call() -> None:
    async with serving() as running, running.client() as client:
        await client.ask("wait", 7, name="a")
        await running.world.begins("a").wait()
        await client.send([note("$/cancelRequest", id=7)])
        assert code(await client.next()) == codes.CANCELLED


async def test_events_of_a_subscription_in_a_batch_come_after_its_answer() -> None:
    async with serving() as running, running.client() as client:
        await client.send([request("subscribe", "s", name="s"), request("wait", "w", name="w")])
        await running.world.begins("w").wait()
        [sink] = running.world.sinks
        assert not sink.offer(sink.frame(b'{"event":1}'))
        async with anyio.create_task_group() as tasks:

            async def event() -> None:
                await sink.drained()
                assert sink.offer(sink.frame(b'{"event":1}'))

            tasks.start_soon(event)
            running.world.gate("w").set()
            assert [answer["id"] for answer in await client.next()] == ["s", "w"]
            assert await client.next() == {"event": 1}


async def test_a_batch_with_a_durable_call_outlives_its_connection() -> None:
    async with serving() as running, running.client() as other:
        async with running.client() as client:
            await client.send([request("wait", name="a"), request("durableWrite", name="b"), request("stop")])
            await running.world.begins("a").wait()
        running.world.gate("a").set()
        running.world.gate("b").set()
        while not running.server.is_closing:
            await other.call("ping")
        assert "written b" in running.world.told


async def test_a_batch_of_readers_ends_with_its_connection() -> None:
    async with serving() as running, running.client() as other:
        async with running.client() as client:
            await client.send([request("wait", name="a"), request("wait", name="b")])
            await running.world.begins("a").wait()
        while "cancelled a" not in running.world.told:
            await other.call("ping")
        assert "prepare b" not in running.world.told


async def test_effects_after_the_reply_of_a_batch_come_after_it() -> None:
    async with serving() as running, running.client() as client:
        await client.send([request("ordered", 1), request("ping", 2)])
        assert len(await client.next()) == 2
        while "after 2" not in running.world.told:
            await client.call("ping")
        assert running.world.told[:3] == ["write 1", "write 2", "subscribe"]


async def test_a_large_frame_of_nothing_but_numbers_is_one_short_error() -> None:
    async with serving(Limits(linger=0.2, grace=0.5)) as running, running.client() as client:
        data: Any = json.dumps([1] * 1_000_000)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.raw, data.encode() + b"\n")
            assert code(await client.next()) == codes.INVALID_REQUEST

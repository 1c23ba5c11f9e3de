"""One connection: framing, answers, and what ends it."""

from __future__ import annotations

import dataclasses
import json

import anyio
import pytest

from cueloop_protocol import codes
from cueloop_protocol.framing import HEADERS, LINES, Kind, encode
from server.world import QUICK, Client, code, serving

KINDS = [LINES, HEADERS]
PIECES = [1, 2, None]

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", PIECES)
async def test_requests_are_answered_in_both_framings_however_they_are_cut(kind: Kind, size: int | None) -> None:
    async with serving() as running, running.client(kind) as client:
        wanted = [{"text": "a" * length + "ä\n€"} for length in range(0, 40, 7)]
        data = b"".join(
            encode(json.dumps({"jsonrpc": "2.0", "id": number, "method": "echo", "params": params}).encode(), kind)
            for number, params in enumerate(wanted)
        )
        await client.raw(data, size)
        for number, params in enumerate(wanted):
            assert await client.next() == {"jsonrpc": "2.0", "id": number, "result": params}


@pytest.mark.parametrize("prefix", [b"\xef\xbb\xbf", b"\r\n\r\n", b" \t\n\xef\xbb\xbf  "])
@pytest.mark.parametrize("kind", KINDS)
async def test_b02_a_byte_order_mark_before_the_first_message_is_skipped(prefix: bytes, kind: Kind) -> None:
    async with serving() as running, running.client(kind) as client:
        await client.raw(prefix + encode(json.dumps(PING).encode(), kind))
        assert (await client.next())["result"] == {}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [65_535, 65_536, 70_000, 300_000, 5_000_000])
async def test_d17_large_frames_and_a_small_one_after_them(size: int, kind: Kind) -> None:
    async with serving() as running, running.client(kind) as client:
        text = "x" * size
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.ask, "echo")
            assert code(await client.next()) == codes.INVALID_PARAMS
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: client.ask("echo", text=text))
            assert (await client.next())["result"] == {"text": text}
        assert (await client.call("ping"))["result"] == {}


async def test_d17_a_read_that_is_exactly_full_is_not_the_last() -> None:
    """A full buffer makes the server look for more at once, and there is none yet."""
    async with serving() as running, running.client() as client, running.client() as other:
        whole = encode(
            json.dumps({"jsonrpc": "2.0", "id": 1, "method": "echo", "params": {"text": "x" * 65_536}}).encode(), LINES
        )
        await client.raw(whole[:65_536])
        for _ in range(5):
            await other.call("ping")
        await client.raw(whole[65_536:])
        assert len((await client.next())["result"]["text"]) == 65_536


@pytest.mark.parametrize("kind", KINDS)
async def test_d17_a_frame_over_the_limit_is_answered_and_ends_the_connection(kind: Kind) -> None:
    async with serving(dataclasses.replace(QUICK, frame=1000)) as running, running.client(kind) as client:
        await client.ask("ping", 1)
        await client.send({"x": "y" * 1000})
        assert (await client.next())["id"] == 1
        answer = await client.next()
        assert (answer["id"], code(answer)) == (None, codes.LIMIT_EXCEEDED)
        assert await client.ended()


async def test_d17_the_answer_to_a_frame_that_is_too_large_reaches_a_peer_that_goes_on_sending() -> None:
    async with serving() as running, running.client(HEADERS) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(client.raw, b"Content-Length: 99999999\r\n\r\n" + b"x" * 3_000_000)
        assert code(await client.next()) == codes.LIMIT_EXCEEDED


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xfe\n",
        b"GET / HTTP/1.1\r\n",
        b"\x00\x00\n",
        b'{"jsonrpc":"2.0","id":1,"method":"\xc0\xaf"}\n',
        b"nonsense\n",
        b"[" * 1000 + b"]" * 1000 + b"\n",
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b'{"a":' * 20_000 + b"1" + b"}" * 20_000 + b"}\n",
    ],
)
async def test_d19_b08_a_frame_that_is_no_json_is_answered_and_the_connection_goes_on(data: bytes) -> None:
    async with serving() as running, running.client() as client:
        await client.raw(data)
        answer = await client.next()
        assert (answer["id"], code(answer)) == (None, codes.PARSE_ERROR)
        assert (await client.call("ping"))["result"] == {}


async def test_d19_empty_lines_are_nothing() -> None:
    async with serving() as running, running.client() as client:
        await client.raw(b"\n\r\n  \n\n")
        assert (await client.call("ping"))["result"] == {}


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) * 2 + b"\n",
        b"CONNECT example.org:443 HTTP/1.1\r\n\r\n",
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        b"content-type: x\r\n\r\n",
        b"C" * 100_000,
    ],
)
async def test_d19_foreign_protocols_harm_only_their_own_connection(data: bytes) -> None:
    async with serving() as running, running.client() as client, running.client() as other:
        await client.raw(data)
        assert (await client.next())["id"] is None
        assert (await other.call("ping"))["result"] == {}


@pytest.mark.parametrize("found", [0, "", 1.5, None, 2**70])
async def test_ids_come_back_as_they_came(found: object) -> None:
    async with serving() as running, running.client() as client:
        await client.ask("ping", found)
        assert await client.next() == {"jsonrpc": "2.0", "id": found, "result": {}}
        await client.ask("nope", found)
        assert (await client.next())["id"] == found


async def test_b04_a_doubled_key_makes_the_request_invalid_and_the_connection_goes_on() -> None:
    async with serving() as running, running.client() as client:
        await client.raw(b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"stop"}\n')
        answer = await client.next()
        assert (answer["id"], code(answer)) == (1, codes.INVALID_REQUEST)
        assert (await client.call("ping"))["result"] == {}


async def test_a_notification_is_not_answered_whatever_becomes_of_it() -> None:
    async with serving() as running, running.client() as client:
        for method in ("ping", "broken", "refused", "nope", "waitBadly", "$/setTrace"):
            await client.send({"jsonrpc": "2.0", "method": method})
        await client.send({"jsonrpc": "2.0", "method": "echo", "params": {"wrong": 1}})
        assert (await client.call("echo", text="last"))["result"] == {"text": "last"}


async def test_what_is_wrong_with_the_envelope_is_told_even_without_an_id() -> None:
    async with serving() as running, running.client() as client:
        await client.send({"jsonrpc": "2.0", "method": 1, "params": "bar"})
        answer = await client.next()
        assert (answer["id"], code(answer)) == (None, codes.INVALID_REQUEST)


@pytest.mark.parametrize("method", ["broken", "unprintable", "waitBadly"])
async def test_what_breaks_in_a_handler_is_logged_and_told_without_details(method: str, caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as running, running.client() as client:
        answer = await client.call(method)
        assert code(answer) == codes.INTERNAL_ERROR
        assert "somebody" not in json.dumps(answer)
        assert [record.levelname for record in caplog.records if record.exc_info] == ["ERROR"]
        assert (await client.call("ping"))["result"] == {}


@pytest.mark.parametrize("method", ["refused", "waitInGroup"])
async def test_an_error_that_is_meant_arrives_whole(method: str) -> None:
    async with serving() as running, running.client() as client:
        answer = await client.call(method)
        assert code(answer) == codes.CONFLICT
        assert answer["error"]["data"]["name"] == "conflict"


async def test_a_model_and_ready_bytes_are_results() -> None:
    async with serving() as running, running.client() as client:
        assert (await client.call("model", text="a"))["result"] == {"text": "a"}
        assert (await client.call("big", text="ab", times=2))["result"] == "abab"


async def test_an_answer_of_ten_megabytes_arrives_and_delays_nobody() -> None:
    async with serving() as running, running.client() as client, running.client() as other:
        await client.ask("big", text="0123456789", times=1_000_000)
        await other.ask("ping")
        assert (await other.next())["result"] == {}
        assert len((await client.next())["result"]) == 10_000_000


async def test_many_requests_in_one_write_are_answered_in_order() -> None:
    async with serving() as running, running.client() as client:
        frames = b"".join(encode(json.dumps({**PING, "id": number}).encode(), LINES) for number in range(3000))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.raw, frames)
            assert [(await client.next())["id"] for _ in range(3000)] == list(range(3000))


async def test_a_last_line_without_a_line_feed_is_a_request() -> None:
    async with serving() as running, running.client() as client:
        await client.raw(json.dumps(PING).encode())
        await client.stream.send_eof()
        assert (await client.next())["result"] == {}
        assert await client.ended()


async def test_a_peer_that_only_ends_its_own_half_gets_what_it_asked_for() -> None:
    async with serving() as running, running.client() as client:
        await client.ask("wait", name="a")
        await client.stream.send_eof()
        await running.world.begins("a").wait()
        running.world.gate("a").set()
        assert (await client.next())["result"] == {"name": "a"}
        assert await client.ended()


async def test_a_cut_message_at_the_end_is_told() -> None:
    async with serving() as running, running.client(HEADERS) as client:
        await client.raw(b"Content-Length: 100\r\n\r\n{")
        await client.stream.send_eof()
        assert code(await client.next()) == codes.PARSE_ERROR
        assert await client.ended()


async def test_a_connection_that_goes_is_cleared_away() -> None:
    async with serving() as running:
        async with running.client() as client:
            await client.call("farewell", name="1")
            await client.call("farewell", name="2")
            await client.call("ping")
            assert running.server.connections == 1
            [peer] = running.world.peers
            assert peer.pid is not None
        async with running.client() as other:
            while "farewell 2" not in running.world.told:
                await other.call("ping")
        assert running.world.told == ["farewell 1", "farewell 2"]
        assert peer.sink.closed


async def test_effects_are_performed_in_their_order_and_the_reply_lies_between() -> None:
    async with serving() as running, running.client() as client:
        assert (await client.call("ordered"))["result"] == {}
        assert (await client.call("ping"))["result"] == {}
        assert running.world.told == ["write 1", "write 2", "subscribe", "after 1", "after 2"]


@pytest.mark.parametrize(("name", "wanted"), [("rpc", codes.CONFLICT), ("os", codes.INTERNAL_ERROR)])
async def test_an_effect_that_fails_is_the_answer_and_stops_those_after_it(name: str, wanted: int) -> None:
    async with serving() as running, running.client() as client:
        assert code(await client.call("failing", name=name)) == wanted
        assert running.world.told == []


async def test_an_effect_after_the_reply_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as running, running.client() as client:
        assert (await client.call("failing", name="after"))["result"] == {}
        while "the next one" not in running.world.told:
            await client.call("ping")
        assert "effect_failed" in caplog.text


async def test_an_effect_gives_the_result() -> None:
    async with serving() as running, running.client() as client:
        running.world.gate("a").set()
        assert (await client.call("write", name="a"))["result"] == {"written": "a"}


async def test_a_fresh_call_is_made_at_once_and_another_in_a_task() -> None:
    async with serving() as running, running.client() as client:
        running.world.fresh = True
        assert (await client.call("wait", name="a"))["result"] == {"name": "a"}
        running.world.fresh = False
        running.world.gate("b").set()
        assert (await client.call("wait", name="b"))["result"] == {"name": "b"}
        assert running.world.told == ["handle a", "prepare b", "handle b"]


async def test_a_slow_call_does_not_hold_up_those_after_it() -> None:
    async with serving() as running, running.client() as client:
        await client.ask("wait", "slow", name="slow")
        await client.ask("ping", "quick")
        assert (await client.next())["id"] == "quick"
        running.world.gate("slow").set()
        assert (await client.next())["id"] == "slow"


async def test_as_many_calls_as_may_are_under_way_and_the_rest_is_paced_not_dropped() -> None:
    async with serving(dataclasses.replace(QUICK, in_flight=3)) as running, running.client() as client:
        names = [f"{number}" for number in range(10)]
        for name in names:
            await client.ask("wait", name, name=name)
        await client.ask("ping", "last")
        for name in names[:3]:
            await running.world.begins(name).wait()
        async with running.client() as other:
            await other.call("ping")
        assert "prepare 3" not in running.world.told
        for name in names:
            running.world.gate(name).set()
        answers = [(await client.next())["id"] for _ in range(11)]
        assert sorted(answers) == sorted([*names, "last"])
        assert sorted(word for word in running.world.told if word.startswith("prepare")) == [f"prepare {name}" for name in names]


async def test_a_peer_that_does_not_read_is_paced_and_costs_a_bounded_amount() -> None:
    async with serving(dataclasses.replace(QUICK, queued=100_000)) as running, running.client() as client:
        size, count = 50_000, 200
        params = {"text": "x", "times": size}
        requests = [{"jsonrpc": "2.0", "id": number, "method": "big", "params": params} for number in range(count)]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.raw, b"".join(encode(json.dumps(request).encode(), LINES) for request in requests))
            async with running.client() as other:
                for _ in range(50):
                    await other.call("ping")
            sent_by_kernel = 1_000_000
            assert len(running.world.told) * size < sent_by_kernel + 100_000 + size
            assert {(await client.next())["id"] for _ in range(count)} == set(range(count))


async def test_calls_that_were_prepared_are_not_made_for_a_peer_that_does_not_read() -> None:
    async with serving(dataclasses.replace(QUICK, queued=10_000)) as running, running.client() as client:
        for number in range(20):
            await client.ask("waitBig", number, text="x", times=1_000_000)
        await running.world.begins("big").wait()
        running.world.gate("big").set()
        async with running.client() as other:
            for _ in range(50):
                await other.call("ping")
        assert running.world.told.count("made") == 1
        assert {(await client.next())["id"] for _ in range(20)} == set(range(20))


async def test_a_client_of_either_framing_gets_its_events_in_it() -> None:
    async with serving() as running, running.client(HEADERS) as client:
        await client.call("subscribe", name="a")
        [sink] = running.world.sinks
        assert sink.offer(sink.frame(b'{"event":1}'))
        assert await client.next() == {"event": 1}


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_broken_in_a_connection_ends_it_alone(kind: Kind, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(dataclasses.replace(QUICK, batch_items="many")) as running, running.client(kind) as client:
        await client.send([PING])
        assert await client.ended()
        assert "connection_failed" in caplog.text
        async with running.client() as other:
            assert (await other.call("ping"))["result"] == {}
            assert running.server.connections == 1


async def test_a_farewell_that_fails_keeps_nobody_from_theirs(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as running, running.client() as other:
        async with running.client() as client:
            await client.call("ping")
            running.world.peers[0].farewells.append(lambda: 1 // 0)
            await client.call("farewell", name="x")
        while "farewell x" not in running.world.told:
            await other.call("ping")
        assert "farewell_failed" in caplog.text


async def test_a_peer_that_is_gone_with_a_reset_is_no_error_of_ours(caplog: pytest.LogCaptureFixture) -> None:
    """A close with unread data resets the connection, which the next read here sees as an error instead of an end."""
    async with serving() as running, running.client() as other:
        async with running.client() as client:
            await client.call("farewell", name="x")
            await client.ask("big", text="x", times=10)
            while "made" not in running.world.told:
                await other.call("ping")
        while "farewell x" not in running.world.told:
            await other.call("ping")
        assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_client_helper_tells_when_there_is_another_word() -> None:
    """The double that the tests lean on is itself held to account."""

    async def check() -> None:
        async with serving() as running, running.client() as client:
            await client.ask("ping")
            with pytest.raises(AssertionError, match="another word"):
                await Client.ended(client)

    anyio.run(check)

"""Whatever comes in, only its own connection is harmed, every request gets one answer, and the server goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cueloop_protocol import codes
from cueloop_protocol.framing import HEADERS, LINES, Kind, encode
from server.world import QUICK, Client, serving

BACKENDS = ["asyncio", "trio"]

IDS = st.none() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=10)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=8
)
METHODS = st.sampled_from(["ping", "echo", "broken", "refused", "ordered", "model", "nope", "$/cancelRequest", "", "big"])
REQUESTS = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | SCALARS,
        "id": IDS | JSON,
        "method": METHODS | SCALARS,
        "params": st.fixed_dictionaries({"text": st.text(max_size=5)}) | JSON,
    },
)
VALID = st.fixed_dictionaries({"jsonrpc": st.just("2.0"), "id": st.integers(), "method": METHODS, "params": JSON})
FRAMES = st.one_of(
    st.binary(max_size=60),
    REQUESTS.map(lambda value: json.dumps(value).encode()),
    VALID.map(lambda value: json.dumps(value).encode()),
    JSON.map(lambda value: json.dumps(value).encode()),
    st.lists(REQUESTS | VALID | JSON, max_size=4).map(lambda value: json.dumps(value).encode()),
)
FUZZ = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    """`data` in pieces of these sizes, again and again."""
    pieces, start = [], 0
    while start < len(data):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(data[start : start + size])
        start += size
    return pieces


def is_answer(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(is_answer(item) and not isinstance(item, list) for item in value)
    return value["jsonrpc"] == "2.0" and "id" in value and ("result" in value) != ("error" in value)


async def everything(client: Client) -> list[Any]:
    """All that the server says until it ends the connection."""
    found: list[Any] = []
    while True:
        try:
            found.append(await client.next())
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return found


@pytest.mark.parametrize("backend", BACKENDS)
@given(st.lists(st.binary(max_size=80), max_size=6))
@FUZZ
def test_d19_any_bytes_at_all(backend: str, pieces: list[bytes]) -> None:
    async def check() -> None:
        async with serving() as running:
            async with running.client() as client:
                for piece in pieces:
                    try:
                        await client.raw(piece)
                    except anyio.BrokenResourceError:
                        break
                await client.stream.send_eof()
                assert all(is_answer(value) for value in await everything(client))
            async with running.client() as other:
                assert (await other.call("ping"))["result"] == {}

    anyio.run(check, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
@given(
    st.lists(FRAMES.filter(lambda frame: b"\n" not in frame), max_size=8),
    st.sampled_from([LINES, HEADERS]),
    st.lists(st.integers(1, 70), min_size=1, max_size=5),
)
@FUZZ
def test_any_frames_however_cut_and_the_last_request_is_answered(
    backend: str, frames: list[bytes], kind: Kind, sizes: list[int]
) -> None:
    async def check() -> None:
        async with serving() as running, running.client(kind) as client:
            opening = encode(b'{"jsonrpc":"2.0","id":"first","method":"ping"}', kind)
            closing = encode(b'{"jsonrpc":"2.0","id":"the last","method":"ping"}', kind)
            for piece in cut(opening + b"".join(encode(frame, kind) for frame in frames) + closing, sizes):
                await client.raw(piece)
            await client.stream.send_eof()
            answers = await everything(client)
            assert all(is_answer(answer) for answer in answers)
            assert answers[0] == {"jsonrpc": "2.0", "id": "first", "result": {}}
            assert {"jsonrpc": "2.0", "id": "the last", "result": {}} in answers

    anyio.run(check, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
@given(st.lists(VALID, min_size=1, max_size=12))
@FUZZ
def test_each_request_gets_one_answer_in_a_batch_and_alone(backend: str, requests: list[dict[str, Any]]) -> None:
    async def check() -> None:
        async with serving() as running, running.client() as client:
            requests_in_order = [{**request, "id": number} for number, request in enumerate(requests)]
            for request in requests_in_order:
                await client.send(request)
            alone = [await client.next() for _ in requests]
            await client.send(requests_in_order)
            together = await client.next()
            assert sorted(alone, key=lambda answer: answer["id"]) == together
            assert [answer["id"] for answer in together] == list(range(len(requests)))

    anyio.run(check, backend=backend)


STOPPING = """
import os, signal, socket, sys
peer = socket.socket(socket.AF_UNIX)
peer.connect(sys.argv[1])
peer.sendall(b'{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"name":"s"}}\\n')
lines = peer.makefile("rb")
lines.readline()
os.kill(os.getpid(), signal.SIGSTOP)
for line in lines:
    if line.startswith(b'{"last"'):
        break
    sys.stdout.buffer.write(line)
"""


async def test_d16_a_stopped_subscriber_costs_one_frame_delays_nobody_and_misses_nothing_it_was_given() -> None:
    async with serving() as running, running.client() as client:
        with subprocess.Popen([sys.executable, "-c", STOPPING, running.path], stdout=subprocess.PIPE) as stopped:
            try:
                await anyio.to_thread.run_sync(os.waitpid, stopped.pid, os.WUNTRACED)
                [sink] = running.world.sinks
                given: list[bytes] = []
                while True:
                    frame = sink.frame(b'{"event":%d,"text":"%b"}' % (len(given), b"x" * 400))
                    if not sink.offer(frame):
                        break
                    given.append(frame)
                begin = time.monotonic()
                for _ in range(200):
                    assert (await client.call("ping"))["result"] == {}
                    assert not sink.offer(b"never\n")
                assert time.monotonic() - begin < 10
                assert sum(map(len, given)) < 1_000_000
                os.kill(stopped.pid, signal.SIGCONT)
                await sink.drained()
                while not sink.offer(sink.frame(b'{"last":1}')):
                    await sink.drained()
                assert stopped.stdout is not None
                assert await anyio.to_thread.run_sync(stopped.stdout.read) == b"".join(given)
            finally:
                stopped.kill()


async def test_a_slow_peer_that_takes_byte_by_byte_gets_all_of_it() -> None:
    async with serving() as running, running.client() as client, running.client() as other:
        await client.ask("big", text="0123456789", times=50_000)
        taken = bytearray()
        with anyio.fail_after(30):
            while not taken.endswith(b"}\n"):
                taken += await client.stream.receive(4096)
                assert (await other.call("ping"))["result"] == {}
        assert json.loads(taken)["result"] == "0123456789" * 50_000


async def test_b08_deep_nesting_in_a_batch_harms_only_the_batch() -> None:
    async with serving(QUICK) as running, running.client() as client:
        await client.raw(b"[" * 199 + b"]" * 199 + b"\n")
        assert [answer["error"]["code"] for answer in await client.next()] == [codes.INVALID_REQUEST]
        await client.raw(b"[" * 100_000 + b"\n")
        assert (await client.next())["error"]["code"] == codes.PARSE_ERROR
        assert (await client.call("ping"))["result"] == {}

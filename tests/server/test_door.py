"""Who comes in, and how many."""

from __future__ import annotations

import dataclasses
import errno
import os
import resource
import socket
import time
from collections.abc import Iterator

import anyio
import pytest

from cueloop_daemon.server.door import Door, Guest, Stranger, Wait, who
from cueloop_daemon.server.limits import Limits
from cueloop_daemon.server.listener import accept_one
from cueloop_protocol import codes
from server.world import QUICK, Client, Running, code, serving


@pytest.fixture
def few_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 40, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def connect(running: Running) -> socket.socket:
    """A connection that says nothing; made by the kernel at once, whether it is accepted or not."""
    peer = socket.socket(socket.AF_UNIX)
    peer.setblocking(False)
    peer.connect(running.path)
    return peer


def take_all_descriptors(hoard: list[int]) -> None:
    while True:
        hoard.append(os.dup(0))


async def reason(peer: socket.socket) -> Client:
    """The client around `peer` after it was closed with a reason; checks the reason's shape."""
    stream = await anyio.abc.UNIXSocketStream.from_socket(peer)
    client = Client(stream)
    answer = await client.next()
    assert (answer["id"], code(answer)) == (None, codes.LIMIT_EXCEEDED)
    assert await client.ended()
    await stream.aclose()
    return client


def test_bookkeeping_of_the_silent() -> None:
    door: Door[str] = Door(Limits(connections=3, unspoken=2, patience=0.5))
    assert door.to_dismiss(0) is None
    door.enter("a", 10.0)
    door.enter("b", 10.25)
    assert door.to_dismiss(10.25) == Wait(0.25)
    assert door.to_dismiss(10.5) == "a"
    door.spoke("a")
    door.spoke("a")
    assert door.to_dismiss(10.5) is None
    assert (door.count, door.silent) == (2, 1)
    assert door.refusal() is None
    door.enter("c", 11.0)
    refusal = door.refusal()
    assert refusal is not None
    assert refusal.code == codes.LIMIT_EXCEEDED
    assert door.to_dismiss(12.0) == "b"
    door.leave("b")
    door.leave("b")
    assert door.inside == {"a", "c"}
    assert door.refusal() is None


def test_d25_who_is_asked_of_the_kernel() -> None:
    near, far = socket.socketpair(socket.AF_UNIX)
    with near, far:
        assert who(near, os.getuid()) == Guest(os.getpid())
        assert who(near, os.getuid() + 1) == Stranger()

        def gone(sock: socket.socket) -> int:
            raise OSError(errno.ENOTCONN, "gone")

        assert who(near, os.getuid(), gone) == Stranger()


async def test_d25_another_user_is_refused_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(uid=os.getuid() + 1) as running, running.client() as client:
        assert await client.ended()
        assert running.server.connections == 0
        assert "stranger_refused" in caplog.text


async def test_d24_one_more_than_the_limit_is_told_so_and_a_place_that_is_free_again_is_given() -> None:
    async with serving(dataclasses.replace(QUICK, connections=3)) as running, running.client() as first:
        async with running.client() as second, running.client() as third:
            for client in (first, second, third):
                await client.call("ping")
            for _ in range(3):
                await reason(connect(running))
            assert running.server.counters()["connections_refused"] == 3
            assert (await first.call("ping"))["result"] == {}
        while running.server.connections > 1:
            await first.call("ping")
        async with running.client() as other:
            assert (await other.call("ping"))["result"] == {}


async def test_the_one_too_many_gets_its_reason_even_if_it_speaks_first() -> None:
    async with serving(dataclasses.replace(QUICK, connections=0)) as running, running.client() as client:
        await client.ask("ping")
        assert code(await client.next()) == codes.LIMIT_EXCEEDED
        assert await client.ended()


async def test_d24_who_does_not_speak_in_time_is_closed_with_a_reason() -> None:
    async with serving(dataclasses.replace(QUICK, speak_within=0.05)) as running:
        await reason(connect(running))
        assert running.server.connections <= 1


@pytest.mark.parametrize("data", [b"{", b"\n\n", b"Content-Length: 50\r\n\r\n{", b"Content-Le"])
async def test_d24_part_of_a_request_is_no_request(data: bytes) -> None:
    async with serving(dataclasses.replace(QUICK, speak_within=0.05)) as running:
        peer = connect(running)
        peer.send(data)
        stream = await anyio.abc.UNIXSocketStream.from_socket(peer)
        assert code(await Client(stream).next()) == codes.LIMIT_EXCEEDED
        await stream.aclose()


async def test_who_has_spoken_may_be_silent_as_long_as_it_likes() -> None:
    async with serving(dataclasses.replace(QUICK, speak_within=0.05)) as running, running.client() as client:
        await client.call("ping")
        await reason(connect(running))
        assert (await client.call("ping"))["result"] == {}


async def test_d24_of_too_many_silent_ones_the_oldest_go() -> None:
    async with serving(dataclasses.replace(QUICK, unspoken=3, patience=0.01)) as running, running.client() as talker:
        await talker.call("ping")
        silent = [connect(running) for _ in range(8)]
        for peer in silent[:5]:
            await reason(peer)
        async with running.client() as client:
            assert (await client.call("ping"))["result"] == {}
        for peer in silent[5:]:
            stream = await anyio.abc.UNIXSocketStream.from_socket(peer)
            await stream.aclose()
        assert (await talker.call("ping"))["result"] == {}


async def test_a_burst_of_callers_that_speak_loses_nobody() -> None:
    """All connect before the first of them is accepted, and each speaks only when all are connected."""
    async with serving(dataclasses.replace(QUICK, unspoken=4, patience=5.0)) as running:
        peers = [connect(running) for _ in range(300)]
        for peer in peers:
            peer.send(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        for peer in peers:
            stream = await anyio.abc.UNIXSocketStream.from_socket(peer)
            assert (await Client(stream).next())["result"] == {}
            await stream.aclose()
        assert running.server.counters()["connections_refused"] == 0


async def test_d24_two_thousand_idle_connections_are_turned_over_and_a_client_is_served() -> None:
    async with serving(dataclasses.replace(QUICK, patience=0.01, linger=0.01)) as running:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
        try:
            idle = [connect(running) for _ in range(2000)]
            async with running.client() as client:
                assert (await client.call("ping"))["result"] == {}
            assert running.server.counters()["connections_silent"] <= 64
            for peer in idle:
                peer.close()
            async with running.client() as client:
                while running.server.connections > 1:
                    await client.call("ping")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("few_descriptors")
async def test_d24_without_descriptors_the_server_waits_without_spinning_and_then_goes_on() -> None:
    attempts = 0

    def accept(sock: socket.socket) -> socket.socket:
        nonlocal attempts
        attempts += 1
        return accept_one(sock)

    async with serving(dataclasses.replace(QUICK, accept_retry=0.05), accept=accept) as running, running.client() as client:
        await client.call("ping")
        waiting = socket.socket(socket.AF_UNIX)
        waiting.setblocking(False)
        hoard: list[int] = []
        with pytest.raises(OSError, match="Too many open files"):
            take_all_descriptors(hoard)
        waiting.connect(running.path)
        waiting.send(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        begin, before = time.monotonic(), attempts
        while attempts < before + 3:
            assert (await client.call("ping"))["result"] == {}
        assert time.monotonic() - begin >= 0.1
        for fd in hoard:
            os.close(fd)
        stream = await anyio.abc.UNIXSocketStream.from_socket(waiting)
        assert (await Client(stream).next())["result"] == {}
        await stream.aclose()


async def test_d24_a_connection_that_closes_ends_the_wait_for_a_descriptor() -> None:
    short = True

    def accept(sock: socket.socket) -> socket.socket:
        if short:
            raise OSError(errno.EMFILE, "none left")
        return accept_one(sock)

    async with serving(dataclasses.replace(QUICK, accept_retry=3600), accept=accept) as running:
        short = False
        async with running.client() as first:
            await first.call("ping")
            short = True
            waiting = connect(running)
            waiting.send(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
            await first.call("ping")
            short = False
        stream = await anyio.abc.UNIXSocketStream.from_socket(waiting)
        assert (await Client(stream).next())["result"] == {}
        await stream.aclose()

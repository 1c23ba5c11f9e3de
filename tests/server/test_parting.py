"""Ends that the other side hears."""

from __future__ import annotations

import socket

import anyio

from cueloop_daemon.server.parting import is_gone, turn_away
from cueloop_protocol import codes


def pair() -> tuple[socket.socket, socket.socket]:
    near, far = socket.socketpair()
    near.setblocking(False)
    far.settimeout(5)
    return near, far


def test_a_peer_that_ended_its_half_is_not_gone_and_one_that_closed_is() -> None:
    near, far = pair()
    with near:
        assert not is_gone(near)
        far.shutdown(socket.SHUT_WR)
        assert not is_gone(near)
        far.close()
        assert is_gone(near)


async def test_the_reason_arrives_even_while_the_peer_is_sending() -> None:
    near, far = pair()
    with far:
        far.send(b"x" * 1000)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(turn_away, near, codes.limit_exceeded("full"), 5)
            await anyio.lowlevel.checkpoint()
            assert b"full" in await anyio.to_thread.run_sync(far.recv, 10_000)
            far.send(b"y" * 1000)
            assert await anyio.to_thread.run_sync(far.recv, 10_000) == b""
            assert near.fileno() >= 0
            far.shutdown(socket.SHUT_WR)
        assert near.fileno() < 0


async def test_a_peer_that_never_ends_is_left_after_the_linger() -> None:
    near, far = pair()
    with far, anyio.fail_after(5):
        await turn_away(near, codes.limit_exceeded("full"), 0.01)
        assert near.fileno() < 0


async def test_a_peer_that_is_gone_already_is_no_error() -> None:
    near, far = pair()
    far.close()
    await turn_away(near, codes.limit_exceeded("full"), 5)
    assert near.fileno() < 0

"""The bytes of a socket: in order, whole, read only for whoever asks, and never lost to a cancellation."""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import termios
from collections.abc import Iterator

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from cueloop_daemon.server.parting import CHUNK
from cueloop_daemon.server.receiver import Receiver


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Ours, non-blocking, and the peer's."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def waiting(sock: socket.socket) -> int:
    """Bytes that the system holds for `sock`."""
    return int(struct.unpack("i", fcntl.ioctl(sock, termios.FIONREAD, b"\0" * 4))[0])


async def test_what_comes_before_and_after_the_call(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    receiver = Receiver(ours, 1)
    theirs.send(b"before")
    with anyio.fail_after(5):
        assert await receiver.receive() == b"before"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.lowlevel.checkpoint)
            tasks.start_soon(anyio.to_thread.run_sync, theirs.send, b"after")
            assert await receiver.receive() == b"after"
    receiver.close()


async def test_more_than_one_buffer_comes_in_order(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    receiver = Receiver(ours, 1)
    sent = b"".join(b"%07d\n" % number for number in range(3 * CHUNK // 8))
    got = bytearray()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.to_thread.run_sync, theirs.sendall, sent)
            while len(got) < len(sent):
                got += await receiver.receive()
    assert bytes(got) == sent
    receiver.close()


async def test_nobody_asks_and_nothing_is_read(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    receiver = Receiver(ours, 1)
    theirs.send(b"one")
    with anyio.fail_after(5):
        assert await receiver.receive() == b"one"
        theirs.send(b"two")
        for _ in range(5):
            await anyio.sleep(0)
        assert waiting(ours) == 3
        assert not receiver._is_registered
        assert await receiver.receive() == b"two"
    receiver.close()


async def test_the_end_however_it_comes(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    receiver = Receiver(ours, 1)
    theirs.send(b"last")
    theirs.shutdown(socket.SHUT_WR)
    with anyio.fail_after(5):
        assert await receiver.receive() == b"last"
        assert await receiver.receive() == b""
        ours.send(b"unread")
        theirs.close()  # with unread input: the next read is an error
        assert await receiver.receive() == b""
    receiver.close()


async def test_a_cancelled_call_loses_nothing(pair: tuple[socket.socket, socket.socket]) -> None:
    """Cancelled while it waits, and in the very turn in which something came."""
    ours, theirs = pair
    receiver = Receiver(ours, 1)
    with anyio.move_on_after(0) as scope:
        await receiver.receive()
    assert scope.cancelled_caught
    got: list[bytes] = []

    async def take() -> None:
        got.append(await receiver.receive())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take)
        await anyio.wait_all_tasks_blocked()
        theirs.send(b"kept")
        if receiver._loop is not None:
            receiver._came()  # as the loop does, before the reader has its turn
            assert receiver._data == b"kept"
        tasks.cancel_scope.cancel()
    if not got:
        with anyio.fail_after(5):
            await take()
    assert got == [b"kept"]
    assert not waiting(ours)
    receiver.close()


async def test_a_closed_receiver_leaves_the_number_to_others(pair: tuple[socket.socket, socket.socket]) -> None:
    """The system gives the number of a closed socket to the next one: nothing of the first may be registered then."""
    ours, theirs = pair
    receiver = Receiver(ours, 1)
    theirs.send(b"x")
    with anyio.fail_after(5):
        await receiver.receive()
        receiver.close()
        theirs.send(b"y")
        await anyio.wait_readable(ours)
    try:
        assert not asyncio.get_running_loop().remove_reader(ours)
    except RuntimeError:
        assert receiver._loop is None

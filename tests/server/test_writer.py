"""The way out of a connection: order, what is kept, and who is told when there is room again."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from cueloop_daemon.events.sink import Sink, SinkClosed
from cueloop_daemon.server.writer import Writer
from cueloop_protocol.framing import HEADERS

QUEUED = 100_000


class Pair:
    """A writer, and the other end of its socket."""

    def __init__(self, writer: Writer, near: socket.socket, far: socket.socket) -> None:
        self.writer = writer
        self.near = near
        self.far = far

    async def read(self, size: int) -> bytes:
        """Exactly so many bytes."""
        data = bytearray()
        with anyio.fail_after(20):
            while len(data) < size:
                try:
                    found = self.far.recv(min(65536, size - len(data)))
                except BlockingIOError:
                    await anyio.wait_readable(self.far)
                else:
                    assert found, "the end came early"
                    data += found
        return bytes(data)

    def is_silent(self) -> bool:
        try:
            self.far.recv(1)
        except BlockingIOError:
            return True
        return False

    def fill(self) -> int:
        """Make the socket take no more. How many bytes it took."""
        taken = 0
        while True:
            try:
                taken += self.near.send(b"." * 10_000)
            except BlockingIOError:
                return taken


@asynccontextmanager
async def pair() -> AsyncIterator[Pair]:
    near, far = socket.socketpair()
    near.setblocking(False)
    far.setblocking(False)
    writer = Writer(near, QUEUED)
    try:
        async with anyio.create_task_group() as tasks:
            writer.start(tasks)
            yield Pair(writer, near, far)
            tasks.cancel_scope.cancel()
    finally:
        writer.close()
        near.close()
        far.close()


async def test_what_the_socket_takes_is_sent_at_once() -> None:
    async with pair() as it:
        it.writer.send(b"{}")
        assert it.far.recv(10) == b"{}\n"
        assert it.writer.queued == 0


async def test_frames_are_framed_as_the_peer_does() -> None:
    async with pair() as it:
        assert it.writer.frame(b"{}") == b"{}\n"
        it.writer.kind = HEADERS
        assert it.writer.frame(b"{}") == b"Content-Length: 2\r\n\r\n{}"
        sink: Sink = it.writer
        assert sink.offer(sink.frame(b"[]"))
        assert it.far.recv(99) == b"Content-Length: 2\r\n\r\n[]"


async def test_order_is_kept_however_much_is_kept() -> None:
    async with pair() as it:
        bodies = [b'"%d%b"' % (number, b"x" * (number * 1000 % 70_000)) for number in range(200)]
        for body in bodies:
            it.writer.send(body)
        assert it.writer.is_congested
        wanted = b"".join(body + b"\n" for body in bodies)
        assert await it.read(len(wanted)) == wanted
        await it.writer.flushed()
        assert it.writer.queued == 0


async def test_ten_megabytes_in_one() -> None:
    async with pair() as it:
        body = b'"' + bytes(range(65, 91)) * 400_000 + b'"'
        it.writer.send(body)
        it.writer.send(b"{}")
        assert await it.read(len(body) + 4) == body + b"\n{}\n"


async def test_a_congested_writer_takes_answers_and_no_events() -> None:
    async with pair() as it:
        filled = it.fill()
        it.writer.send(b'"answer"')
        assert not it.writer.offer(b'"event"\n')
        assert it.writer.queued == len(b'"answer"\n')
        assert (await it.read(filled + 9))[-9:] == b'"answer"\n'
        await it.writer.drained()
        assert it.writer.offer(b'"event"\n')
        assert await it.read(8) == b'"event"\n'


async def test_an_event_of_which_nothing_was_taken_is_not_taken() -> None:
    async with pair() as it:
        filled = it.fill()
        assert not it.writer.offer(b'"event"\n')
        assert it.writer.queued == 0
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.read, filled)
            await it.writer.drained()
        assert it.is_silent()
        assert it.writer.offer(b'"event"\n')
        assert await it.read(8) == b'"event"\n'


async def test_an_event_of_which_a_part_was_taken_is_sent_whole_before_anything_else() -> None:
    async with pair() as it:
        event = b'"' + b"e" * 5_000_000 + b'"\n'
        assert it.writer.offer(event)
        assert 0 < it.writer.queued < len(event)
        assert not it.writer.offer(b'"next"\n')
        it.writer.send(b'"answer"')
        assert await it.read(len(event) + 9) == event + b'"answer"\n'


async def test_several_may_wait_for_the_same_drain() -> None:
    async with pair() as it:
        filled = it.fill()
        assert not it.writer.offer(b"1\n")
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(it.writer.drained)
            await it.read(filled)


async def test_a_writer_that_is_free_is_drained_at_once() -> None:
    async with pair() as it:
        await it.writer.drained()
        await it.writer.flushed()
        await it.writer.room()


async def test_room_comes_when_less_is_kept_than_may_be() -> None:
    async with pair() as it:
        it.writer.send(b'"' + b"x" * 1_000_000 + b'"')
        assert it.writer.is_congested
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.read, 1_000_003)
            await it.writer.room()
            assert it.writer.queued <= QUEUED


async def test_events_wait_while_they_are_held() -> None:
    async with pair() as it:
        it.writer.hold()
        it.writer.hold()
        assert not it.writer.offer(b"1\n")
        it.writer.send(b'"answer"')
        assert it.far.recv(99) == b'"answer"\n'
        it.writer.release()
        assert not it.writer.offer(b"1\n")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.writer.drained)
            it.writer.release()
        assert it.writer.offer(b"1\n")


async def test_what_was_written_before_the_start_is_sent_then() -> None:
    near, far = socket.socketpair()
    near.setblocking(False)
    far.setblocking(False)
    writer = Writer(near, QUEUED)
    it = Pair(writer, near, far)
    body = b'"' + b"x" * 3_000_000 + b'"'
    writer.send(body)
    async with anyio.create_task_group() as tasks:
        writer.start(tasks)
        assert await it.read(len(body) + 1) == body + b"\n"
    near.close()
    far.close()


async def test_a_lost_peer_closes_the_writer_and_wakes_those_who_wait() -> None:
    async with pair() as it:
        it.fill()
        it.writer.send(b'"answer"')
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.writer.flushed)
            await anyio.lowlevel.checkpoint()
            it.far.close()
        assert it.writer.closed
        assert it.writer.queued == 0
        assert not it.writer.offer(b"1\n")
        it.writer.send(b"{}")
        with pytest.raises(SinkClosed):
            await it.writer.drained()


async def test_a_peer_that_is_gone_is_found_by_the_next_write() -> None:
    async with pair() as it:
        it.far.close()
        assert not it.writer.offer(b"1\n")
        assert it.writer.closed


async def test_a_closed_writer_takes_nothing_and_wakes_those_who_wait() -> None:
    async with pair() as it:
        it.fill()
        it.writer.send(b'"' + b"x" * 1_000_000 + b'"')
        ended: list[str] = []

        async def drained() -> None:
            with pytest.raises(SinkClosed):
                await it.writer.drained()
            ended.append("drained")

        async def room() -> None:
            await it.writer.room()
            await it.writer.flushed()
            ended.append("room")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(drained)
            tasks.start_soon(room)
            await anyio.lowlevel.checkpoint()
            it.writer.close()
        assert sorted(ended) == ["drained", "room"]

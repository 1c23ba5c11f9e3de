"""Bytes both ways, whatever they are, however slowly they are taken; and each way in which it ends."""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cueloop_client.remote.bridge import LEAVE_SECONDS, ROOM, Beats, Bridge

SECONDS = 10.0
NEVER = Beats(every=100.0, idle=100.0)


class Ends:
    """What stands at the three ends of a running bridge: who writes into it and reads from it by pipes, and whoever has the socket."""

    def __init__(self, beats: Beats | None, last_words: bytes, early: bytes, *, blocking: bool) -> None:
        reading, self.into = os.pipe()
        self.out, writing = os.pipe()
        self.sock, inner = socket.socketpair()
        for fd in (reading, writing):
            os.set_blocking(fd, blocking)
        self.sock.settimeout(SECONDS)
        self.bridge = Bridge(reading, writing, inner, time.monotonic, beats, early=early)
        self.is_blocking = blocking

        def copy() -> None:
            self.bridge.run(lambda bridge: b"" if bridge.delivered else last_words)
            os.close(reading)
            os.close(writing)
            inner.close()

        self.thread = threading.Thread(target=copy, daemon=True)
        self.thread.start()
        self._open = {self.into, self.out}

    def close(self, fd: int) -> None:
        if fd in self._open:
            self._open.discard(fd)
            os.close(fd)

    def read(self, size: int) -> bytes:
        """So many bytes of the pipe, or fewer at its end."""
        data = b""
        while len(data) < size:
            assert select.select([self.out], [], [], SECONDS)[0], f"only {len(data)} bytes came"
            piece = os.read(self.out, size - len(data))
            if not piece:
                return data
            data += piece
        return data

    def receive(self, size: int) -> bytes:
        """The same of the socket."""
        data = b""
        while len(data) < size and (piece := self.sock.recv(size - len(data))):
            data += piece
        return data

    def ended_after(self, began: float) -> float:
        """Seconds from then to the end of the bridge."""
        self.thread.join(SECONDS)
        assert not self.thread.is_alive()
        return time.monotonic() - began


@contextmanager
def bridged(beats: Beats | None = None, *, last_words: bytes = b"", early: bytes = b"", blocking: bool = True) -> Iterator[Ends]:
    ends = Ends(beats, last_words, early, blocking=blocking)
    try:
        yield ends
    finally:
        ends.close(ends.into)
        ends.close(ends.out)
        ends.sock.close()
        ends.thread.join(SECONDS)
        assert not ends.thread.is_alive()


def in_thread(call: object, *args: object) -> threading.Thread:
    thread = threading.Thread(target=call, args=args, daemon=True)  # type: ignore[arg-type]
    thread.start()
    return thread


@settings(max_examples=25, deadline=None)
@given(
    there=st.lists(st.binary(max_size=3 * 4096), max_size=6),
    back=st.lists(st.binary(max_size=3 * 4096), max_size=6),
    blocking=st.booleans(),
)
def test_every_byte_both_ways(there: list[bytes], back: list[bytes], blocking: bool) -> None:
    with bridged(blocking=blocking) as ends:
        for data in there:
            os.write(ends.into, data)
        for data in back:
            ends.sock.sendall(data)
        assert ends.receive(sum(map(len, there))) == b"".join(there)
        assert ends.read(sum(map(len, back))) == b"".join(back)


@settings(max_examples=25, deadline=None)
@given(there=st.binary(max_size=5000).filter(lambda data: b"\0" not in data), beats=st.lists(st.integers(0, 5000), max_size=5))
def test_signs_of_life_are_no_bytes(there: bytes, beats: list[int]) -> None:
    sent = bytearray(there)
    for place in sorted(beats, reverse=True):
        sent[place:place] = b"\0"
    with bridged(NEVER, early=bytes(sent[:10])) as ends:
        os.write(ends.into, sent[10:])
        assert ends.receive(len(there)) == there


@pytest.mark.parametrize("blocking", [True, False])
def test_more_than_all_buffers_with_both_sides_slow(blocking: bool) -> None:
    much = os.urandom(4 * ROOM)
    with bridged(blocking=blocking) as ends:
        sending = in_thread(ends.sock.sendall, much)
        feeding = in_thread(lambda: [os.write(ends.into, much[at : at + 65536]) for at in range(0, len(much), 65536)])
        assert ends.read(len(much)) == much
        assert ends.receive(len(much)) == much
        sending.join(SECONDS)
        feeding.join(SECONDS)


def test_nothing_is_read_beyond_the_buffers() -> None:
    with bridged() as ends:
        ends.sock.setblocking(False)
        sent, deadline = 0, time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            if not select.select([], [ends.sock], [], 0.3)[1]:
                break
            sent += ends.sock.send(b"x" * 65536)
        assert ROOM < sent < 8 * ROOM


def test_a_side_that_ended_and_one_that_does_not_take_cost_no_time() -> None:
    """The socket is at its end while the pipe is full: that end must not be told again and again."""
    with bridged() as ends:
        ends.sock.setblocking(False)
        sent = 0
        while select.select([], [ends.sock], [], 0.3)[1]:
            sent += ends.sock.send(b"x" * 65536)
        ends.sock.close()
        before = time.process_time()
        ends.thread.join(0.5)
        assert time.process_time() - before < 0.1
        assert len(ends.read(sent + 1)) == sent


class TestEnds:
    def test_the_client_leaves(self) -> None:
        with bridged() as ends:
            os.write(ends.into, b"the last")
            began = time.monotonic()
            ends.close(ends.into)
            assert ends.receive(100) == b"the last"
            assert ends.ended_after(began) < 1.0

    def test_the_client_leaves_and_the_daemon_takes_nothing(self) -> None:
        with bridged() as ends:
            os.set_blocking(ends.into, False)
            while select.select([], [ends.into], [], 0.3)[1]:
                os.write(ends.into, b"x" * 4096)
            began = time.monotonic()
            ends.close(ends.into)
            assert ends.ended_after(began) < 2.0

    def test_the_reader_leaves_while_nothing_is_to_be_written(self) -> None:
        with bridged() as ends:
            began = time.monotonic()
            ends.close(ends.out)
            assert ends.ended_after(began) < 1.0

    def test_the_reader_leaves_while_it_is_blocked(self) -> None:
        with bridged() as ends:
            ends.sock.setblocking(False)
            while select.select([], [ends.sock], [], 0.3)[1]:
                ends.sock.send(b"x" * 65536)
            began = time.monotonic()
            ends.close(ends.out)
            assert ends.ended_after(began) < 1.0

    def test_the_daemon_leaves_and_what_it_said_arrives_however_slowly(self) -> None:
        said = os.urandom(2 * ROOM)
        with bridged() as ends:
            in_thread(lambda: (ends.sock.sendall(said), ends.sock.close()))
            came = b""
            began = time.monotonic()
            while len(came) < len(said):  # longer in sum than it waits for one byte
                came += ends.read(min(ROOM // 2, len(said) - len(came)))
                threading.Event().wait(LEAVE_SECONDS / 3)
            assert came == said
            assert time.monotonic() - began > LEAVE_SECONDS / 3 * 3
            ends.ended_after(began)

    def test_the_daemon_leaves_unasked_and_says_nothing(self) -> None:
        with bridged(last_words=b"nothing was done") as ends:
            ends.sock.close()
            assert ends.read(100) == b"nothing was done"

    def test_the_daemon_leaves_after_it_was_asked(self) -> None:
        with bridged(last_words=b"nothing was done") as ends:
            os.write(ends.into, b"?")
            assert ends.receive(1) == b"?"
            ends.sock.close()
            assert ends.read(100) == b""

    def test_a_daemon_that_takes_nothing_more_is_still_heard(self) -> None:
        """As one that hands over does: it reads no more and answers what it has read."""
        with bridged(last_words=b" (nothing was done)") as ends:
            ends.sock.shutdown(socket.SHUT_RD)
            os.write(ends.into, b"too late")
            ends.sock.sendall(b"I leave")
            assert ends.read(7) == b"I leave"
            ends.sock.close()
            assert ends.read(100) == b" (nothing was done)"

    def test_a_silent_client_is_taken_for_lost(self) -> None:
        with bridged(Beats(every=100.0, idle=0.3)) as ends:
            began = time.monotonic()
            assert 0.2 < ends.ended_after(began) < 2.0

    def test_a_client_that_shows_life_is_not(self) -> None:
        with bridged(Beats(every=100.0, idle=1.0)) as ends:
            until = time.monotonic() + 2.0
            while time.monotonic() < until:
                os.write(ends.into, b"\0")
                threading.Event().wait(0.1)
            os.write(ends.into, b"I live")
            assert ends.receive(6) == b"I live"

    def test_life_is_shown_while_there_is_nothing_to_say(self) -> None:
        with bridged(Beats(every=0.05, idle=100.0)) as ends:
            assert ends.read(3) == b"\0\0\0"
            ends.sock.sendall(b"said")
            assert b"said" in ends.read(8)

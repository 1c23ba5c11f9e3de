"""What passes between owner and heir, and what is refused."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cueloop_daemon.service.standing import is_listener
from cueloop_daemon.takeover.bequest import Bequest, Estate, Heir, HeirLost
from cueloop_daemon.takeover.channel import Channel, ChannelEnded, ChannelSilent
from cueloop_daemon.takeover.inheritance import Inheritance, Owner, receive, word_for
from cueloop_protocol.identity import boot_id, process_start_time
from cueloop_protocol.roots import Root

TOKEN = "f" * 32
US = Owner(os.getpid(), process_start_time(os.getpid()) or "", boot_id(), "i", "1", 0.1)


@pytest.fixture
def pair() -> Iterator[tuple[Channel, Channel]]:
    one, two = (Channel(sock) for sock in socket.socketpair())
    yield one, two
    one.close()
    two.close()


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(tmp_path / "s"))
        sock.listen()
        yield sock


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_descriptors_come_beside_their_message_and_are_not_inherited(pair: tuple[Channel, Channel]) -> None:
    ours, theirs = pair
    read, write = os.pipe()
    ours.send({"a": 1}, 1.0, (read, write))
    ours.send({"b": 2}, 1.0)
    assert (theirs.receive(1.0), theirs.receive(1.0)) == ({"a": 1}, {"b": 2})
    taken = theirs.take()
    assert [os.get_inheritable(fd) for fd in taken] == [False, False]
    os.write(taken[1], b"x")
    assert os.read(read, 1) == b"x"
    for fd in (read, write, *taken):
        os.close(fd)


def test_more_than_there_is_room_for_ends_it_and_leaves_nothing_open(pair: tuple[Channel, Channel]) -> None:
    ours, theirs = pair
    before = open_files()
    ours.send({"a": 1}, 1.0, [0] * 60)
    with pytest.raises(ChannelEnded, match="lost on the way"):
        theirs.receive(1.0)
    theirs.close()
    assert open_files() == before - 1


@pytest.mark.parametrize("data", [b"[1]\n", b"\xff\n", b"x" * 40_000, b"{"])
def test_nonsense_ends_it(data: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours:
        ours.sendall(data)
        ours.shutdown(socket.SHUT_WR)
        channel = Channel(theirs)
        with pytest.raises(ChannelEnded):
            channel.receive(5.0)
        channel.close()


def test_silence_has_an_end(pair: tuple[Channel, Channel]) -> None:
    with pytest.raises(ChannelSilent):
        pair[0].receive(0.05)


def offer(listener: socket.socket, **changes: object) -> dict[str, Any]:
    place = os.stat(listener.getsockname())
    return {"token": TOKEN, "path": word_for(listener.getsockname()), "identity": [place.st_dev, place.st_ino], **changes}


def test_an_offer_is_held_and_taken_when_the_owner_goes(pair: tuple[Channel, Channel], listener: socket.socket) -> None:
    ours, theirs = pair
    ours.send(offer(listener), 1.0, (listener.fileno(), 0, 0))
    ours.send({"going": True}, 1.0)
    found = receive(theirs, US, TOKEN)
    assert isinstance(found, Inheritance)
    assert (ours.receive(1.0), found.path, is_listener(found.listener)) == ({"held": True}, listener.getsockname(), True)
    for fd in (found.listener, found.inner, found.local):
        os.close(fd)


@pytest.mark.parametrize(
    ("changes", "beside"),
    [
        ({"token": "0"}, "l00"),
        ({"path": "zz"}, "l00"),
        ({"identity": [1]}, "l00"),
        ({}, "l0"),
        ({}, "000"),
        ({}, "l000"),
        ({}, ""),
    ],
)
def test_what_was_not_promised_is_refused_and_closed(
    pair: tuple[Channel, Channel], listener: socket.socket, changes: dict[str, object], beside: str
) -> None:
    ours, theirs = pair
    before = open_files()
    ours.send(offer(listener, **changes), 1.0, [listener.fileno() if word == "l" else 0 for word in beside])
    assert receive(theirs, US, TOKEN) is None
    assert open_files() == before


def test_a_refusal_in_the_last_moment_is_told(pair: tuple[Channel, Channel], listener: socket.socket) -> None:
    ours, theirs = pair
    before = open_files()
    ours.send(offer(listener), 1.0, (listener.fileno(), 0, 0))
    ours.send({"refused": {"code": "resource_busy", "message": "a run"}}, 1.0)
    assert receive(theirs, US, TOKEN) == {"code": "resource_busy", "message": "a run"}
    assert open_files() == before


@pytest.mark.parametrize("name", ["elsewhere", "0123456789abcdef.heir-7"])
def test_descriptors_go_to_no_socket_outside_the_user_s_own_folder(tmp_path: Path, listener: socket.socket, name: str) -> None:
    """A method that anybody of the user can call must not hand the listener to a path of the caller's choice."""
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(tmp_path / name))
        door.listen()
        door.settimeout(0)
        root = Root(str(tmp_path), str(tmp_path))
        estate = Estate(root, os.getuid(), listener.fileno(), listener.getsockname(), (0, 0), 0, 0)
        with pytest.raises(HeirLost, match="not where it must be"):
            Bequest.offer(Heir(7, str(tmp_path / name), TOKEN), estate)
        with pytest.raises(BlockingIOError):
            door.accept()


def test_a_message_that_was_sent_whole_is_sent_even_if_the_other_side_has_answered_and_gone_by_then() -> None:
    class Gone:
        """A socket whose other side closes right after the first call."""

        def settimeout(self, seconds: float) -> None:
            """Nothing to do."""

        def sendmsg(self, buffers: list[bytes], ancillary: object) -> int:
            return sum(map(len, buffers))

        def sendall(self, data: bytes) -> None:
            raise BrokenPipeError

    Channel(Gone()).send({"ask": 1}, 1.0)  # type: ignore[arg-type]  # all that sending asks of a socket

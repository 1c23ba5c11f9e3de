"""Who is listened to, and what becomes of those who talk nonsense or too slowly."""

from __future__ import annotations

import contextlib
import socket

import pytest

from shim.shim_process import World


def test_a_later_generation_fences_the_earlier(world: World) -> None:
    old = world.start()
    new = world.connect(generation=5)
    assert old.read() == ("refused", {"why": "fenced"})
    assert old.is_cut()
    late = world.talk()
    assert late.hello(world.run_id, generation=4) == ("refused", {"why": "fenced"})
    assert late.is_cut()
    assert new.ask("status")[0] == "state"


def test_the_same_generation_may_reconnect(world: World) -> None:
    """A broken link that this end has not noticed yet must not keep the daemon out."""
    first = world.start()
    second = world.connect(generation=1)
    assert first.read() == ("refused", {"why": "fenced"})
    assert second.ask("status")[0] == "state"


def test_an_older_daemon_cannot_come_back_after_the_later_has_gone(world: World) -> None:
    world.start()
    world.connect(generation=3).close()
    late = world.talk()
    assert late.hello(world.run_id, generation=2) == ("refused", {"why": "fenced"})


@pytest.mark.parametrize(("protocols", "word"), [((1, 1), "shim"), ((0, 7), "shim"), ((2, 9), "refused"), ((0, 0), "refused")])
def test_protocols(world: World, protocols: tuple[int, int], word: str) -> None:
    world.spawn()
    talk = world.talk()
    said, told = talk.hello(world.run_id, protocols=protocols)
    assert said == word
    assert word == "shim" or told == {"why": "version"}


def test_a_refused_hello_fences_nobody(world: World) -> None:
    talk = world.start()
    other = world.talk()
    assert other.hello("another-run", generation=99) == ("refused", {"why": "run"})
    assert talk.ask("status")[0] == "state"
    assert world.connect(generation=2).ask("status")[0] == "state"


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"{}\n",
        b"[]\n",
        b"null\n",
        b'{"status": 1}\n',
        b'{"status": {}, "end": {}}\n',
        b"\xff\n",
        b"[" * 10000 + b"\n",
        b'{"start": {"n": "1", "token": "t"}}\n',
        b'{"start": {"n": true, "token": "t"}}\n',
        b'{"start": {"n": -1, "token": "t"}}\n',
        b'{"start": {"n": 1}}\n',
        b'{"signal": {"n": 1, "grace": -1}}\n',
        b'{"signal": {"n": 1, "grace": NaN}}\n',
        b'{"signal": {"n": 1, "grace": "1"}}\n',
        b'{"lock": {"n": 1, "label": "l", "command": "c", "started_at": "s", "clear": {"dev": 1}}}\n',
        b'{"hello": {"generation": 1, "protocols": [1], "run_id": "r"}}\n',
        b"x" * 65537,
    ],
)
def test_nonsense_ends_the_connection_and_nothing_else(world: World, line: bytes) -> None:
    talk = world.start()
    talk.sock.sendall(line)
    assert talk.is_cut()
    assert world.connect().ask("status")[0] == "state"


def test_a_stranger_is_given_nothing(world: World) -> None:
    world.start()
    talk = world.talk()
    talk.send("status")
    assert talk.is_cut()


def test_many_strangers_push_each_other_out_and_not_the_daemon(world: World) -> None:
    talk = world.start()
    strangers = [world.talk() for _ in range(30)]
    assert strangers[0].is_cut()
    assert talk.ask("status")[0] == "state"
    for one in strangers:
        one.close()


def test_a_stranger_that_never_says_hello_is_cut(world: World) -> None:
    world.spawn()
    assert world.talk().is_cut()


def test_half_a_line_is_cut(world: World) -> None:
    talk = world.start()
    talk.sock.sendall(b'{"status"')
    assert talk.is_cut()


def test_a_line_may_come_in_pieces(world: World) -> None:
    talk = world.start()
    for byte in b'{"status":{}}\n{"end":{}}\n':
        talk.sock.sendall(bytes([byte]))
    assert talk.read()[0] == "state"
    assert talk.read()[0] == "bye"


def test_a_daemon_that_does_not_read_is_cut_and_told_again(world: World) -> None:
    """Its answers pile up to a limit; the state tells everything when it is back."""
    talk = world.start()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        for _ in range(1000):
            talk.sock.sendall(b'{"status":{}}\n' * 1000)
    assert talk.is_cut()
    again = world.connect()
    assert again.ask("status")[0] == "state"


def test_another_kind_of_peer_is_no_matter(world: World) -> None:
    """Somebody connects and leaves at once, again and again."""
    talk = world.start()
    for _ in range(200):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(world.socket)
        sock.close()
    assert talk.ask("status")[0] == "state"

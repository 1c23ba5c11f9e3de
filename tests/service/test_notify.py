"""What systemd is told, over a real datagram socket."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cueloop_daemon.service.notify import Notifier


@contextmanager
def listening(address: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind("\0" + address[1:] if address[0] == "@" else address)
        sock.setblocking(False)
        yield sock


def heard(sock: socket.socket) -> list[str]:
    found = []
    while True:
        try:
            found.append(sock.recv(4096).decode())
        except BlockingIOError:
            return found


@pytest.fixture(params=["path", "abstract"])
def address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    if request.param == "path":
        return str(tmp_path_factory.mktemp("n") / "s")
    return f"@cueloopd-test-{os.getpid()}"


def test_a_life_is_told_in_order(address: str) -> None:
    with listening(address) as sock:
        notifier = Notifier(address, lambda: 12.5)
        notifier.ready("no run")
        notifier.status("no run")  # told already
        notifier.status("run r-1: RQ-0001, plan")
        with notifier.reloading():
            pass
        notifier.alive()
        notifier.stopping("leaving: idle")
        assert heard(sock) == [
            "READY=1\nSTATUS=no run",
            "STATUS=run r-1: RQ-0001, plan",
            "RELOADING=1\nMONOTONIC_USEC=12500000",
            "READY=1",
            "WATCHDOG=1",
            "STOPPING=1\nSTATUS=leaving: idle",
        ]


def test_a_reload_that_fails_is_over_all_the_same(address: str) -> None:
    with listening(address) as sock:
        with pytest.raises(ZeroDivisionError), Notifier(address, lambda: 0.0).reloading():
            raise ZeroDivisionError
        assert heard(sock)[-1] == "READY=1"


def test_a_status_is_one_short_line(address: str) -> None:
    with listening(address) as sock:
        Notifier(address, lambda: 0.0).status("a\nREADY=1\x1b" + "b" * 500)
        [note] = heard(sock)
        assert re.fullmatch(r"STATUS=a READY=1 b+", note)
        assert len(note) < 250


@pytest.mark.parametrize("given", [None, "", "@", "/", "relative", "vsock:2:1234", "/" + "x" * 107])
def test_what_is_no_address_is_nobodys(given: str | None) -> None:
    notifier = Notifier(given, lambda: 0.0)
    assert not notifier
    notifier.ready("x")


def test_a_manager_that_is_gone_or_full_costs_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    Notifier(path, lambda: 0.0).ready("nobody is there")
    with listening(path) as sock:
        notifier = Notifier(path, lambda: 0.0)
        for _ in range(2000):  # more than any queue holds
            notifier.alive()
        assert 0 < len(heard(sock)) < 2000

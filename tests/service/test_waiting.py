"""Who waits where nobody can serve is told so, whatever it says and however it says it."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cueloop_daemon.service import waiting
from cueloop_daemon.service.waiting import refuse_all, refuse_waiting
from cueloop_protocol.codes import CONFLICT, RpcError
from support.wire import Wire


@pytest.fixture
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(tmp_path_factory.mktemp("w") / "s"))
        sock.listen(512)
        yield sock


@contextmanager
def refusing(door: socket.socket) -> Iterator[threading.Event]:
    over = threading.Event()
    error = RpcError(CONFLICT, "No place.", word="resource_busy")
    thread = threading.Thread(target=refuse_waiting, args=([door], lambda: error, over.is_set), kwargs={"step": 0.01})
    thread.start()
    try:
        yield over
    finally:
        over.set()
        thread.join(20)
        assert not thread.is_alive()


def read_all(sock: socket.socket) -> bytes:
    data = b""
    while piece := sock.recv(65536):
        data += piece
    return data


REQUEST = b'{"jsonrpc":"2.0","id":7,"method":"ping"}'


@pytest.mark.parametrize(
    ("sent", "is_framed"),
    [
        (REQUEST + b"\n", False),
        (b"\xef\xbb\xbf  \n" + REQUEST, False),
        (b"", False),
        (b"\n", False),
        (b"Content-Length: 40\r\n\r\n" + REQUEST, True),
        (b"content-le", True),
    ],
)
def test_each_is_answered_in_its_own_framing(door: socket.socket, sent: bytes, is_framed: bool) -> None:
    with refusing(door), socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(20)
        caller.connect(door.getsockname())
        caller.sendall(sent)
        answer = read_all(caller)
    head, _, body = answer.partition(b"\r\n\r\n") if is_framed else (b"", b"", answer)
    assert head.startswith(b"Content-Length: ") == is_framed
    message: dict[str, Any] = json.loads(body)
    assert (message["id"], message["error"]["message"], message["error"]["data"]["name"]) == (None, "No place.", "conflict")


def test_many_at_once_are_all_answered(door: socket.socket) -> None:
    """More than are let in at the same time; and some have gone before they were answered."""
    callers = [Wire(door.getsockname()) for _ in range(waiting.MOST + 50)]
    for gone in callers[::10]:
        gone.sock.close()
    with refusing(door):
        for caller in callers:
            if caller.sock.fileno() >= 0:
                caller.send(REQUEST + b"\n")
                assert caller.answer()["error"]["message"] == "No place."
                caller.sock.close()


def test_at_its_end_the_next_is_left_in_the_queue(door: socket.socket) -> None:
    with refusing(door) as over:
        over.set()
    with Wire(door.getsockname()) as late:
        late.send(REQUEST + b"\n")
        door.settimeout(20)
        door.accept()[0].close()


def test_a_start_that_failed_lives_long_enough(door: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "SYSTEMD_LIFE", 0.05)
    with Wire(door.getsockname()) as wire:
        wire.send(REQUEST + b"\n")
        refuse_all((door,), "The disk is full.", "permission_denied", "Free space.", "systemd")
        error = wire.answer()["error"]
    assert (error["data"]["name"], error["data"]["error"]["detail"]) == ("not_writable", "Free space.")
    assert door.fileno() < 0


def test_callers_alone_never_use_up_the_starts_of_the_unit() -> None:
    """Else the socket itself would fail, and stay so until somebody resets it."""
    unit = (Path(__file__).parents[2] / "systemd/cueloopd@.service").read_text()
    settings = dict(line.split("=", 1) for line in unit.splitlines() if "=" in line and not line.startswith("#"))
    interval, burst = int(settings["StartLimitIntervalSec"]), int(settings["StartLimitBurst"])
    assert interval / burst < waiting.SYSTEMD_LIFE
    assert {"1", "2", "3"} == set(settings["RestartPreventExitStatus"].split())

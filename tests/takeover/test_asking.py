"""What an heir makes of an owner's answers, with an owner that is played."""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cueloop_daemon.takeover import asking
from cueloop_daemon.takeover.asking import Nobody, Stays, ask
from cueloop_daemon.takeover.ours import this_version
from cueloop_protocol.codes import run_active
from cueloop_protocol.identity import boot_id, process_start_time
from cueloop_protocol.place import ensure_private_folder, ensure_socket_folder, local_folder
from cueloop_protocol.roots import Root

UID = os.getuid()
PROMISE = {
    "result": {
        "pid": os.getpid(),
        "start_time": process_start_time(os.getpid()),
        "boot_id": boot_id(),
        "instance": "i",
        "version": "1",
        "leaves_within": 1,
    }
}
REFUSAL = {"error": run_active("run-1").to_wire()}


@pytest.fixture
def place() -> Iterator[tuple[Root, dict[str, str]]]:
    """A root and an environment whose socket folder is there; short, as sockets' names have to be."""
    folder = Path(tempfile.mkdtemp(prefix="hr", dir="/tmp"))
    (folder / "repo").mkdir()
    (folder / "run").mkdir(0o700)
    root, environ = Root(str(folder / "repo"), str(folder / "repo")), {"XDG_RUNTIME_DIR": str(folder / "run")}
    ensure_private_folder(local_folder(UID), UID)
    yield root, environ
    shutil.rmtree(folder)


@contextmanager
def owner(place: tuple[Root, dict[str, str]], answers: Sequence[dict[str, Any]]) -> Iterator[list[str]]:
    """Answers each connection's one request in turn, and closes it; then nobody listens. Gives the methods that were asked."""
    asked: list[str] = []
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{ensure_socket_folder(*place, UID)}/d.sock")
    listener.listen()
    listener.settimeout(30)

    def serve() -> None:
        with listener:
            for answer in answers:
                with listener.accept()[0] as peer, peer.makefile("rb") as lines:
                    asked.append(json.loads(lines.readline())["method"])
                    peer.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, **answer}).encode() + b"\n")

    thread = threading.Thread(target=serve)
    thread.start()
    yield asked
    thread.join(30)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "END_SECONDS", 0.05)


def test_who_was_promised_what_another_got_asks_whoever_serves_then(place: tuple[Root, dict[str, str]]) -> None:
    with owner(place, [PROMISE, REFUSAL]) as asked:
        found = ask(place[0], UID, place[1], this_version())
    assert isinstance(found, Stays), asked
    assert (found.why, asked) == ("refused", ["daemon.handover"] * 2)


def test_who_was_promised_something_by_an_owner_that_ended_finds_nobody(place: tuple[Root, dict[str, str]]) -> None:
    with owner(place, [PROMISE]) as asked:
        found = ask(place[0], UID, place[1], this_version())
    assert (found, asked) == (Nobody(), ["daemon.handover"])

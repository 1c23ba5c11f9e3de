"""Faults of the daemon, and how to mend them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from cueloop_client.backoff import Backoff
from cueloop_client.failures import StartFailed
from cueloop_protocol.identity import boot_id, process_start_time
from cueloop_protocol.place import Locator, locator_bytes, root_hash
from cueloop_protocol.version import __version__
from doctor.fault import Act, Fault
from doctor.lab import Lab
from support.wire import wait_for

STATUS = {"pid": 4242, "daemon_version": __version__, "state": "serving", "watcher": {}, "events": {}}


def serve(lab: Lab, answer: bytes | None, **located: object) -> None:
    """This process listens at the daemon's place, says so, and answers everything with these bytes; None: with nothing."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(lab.socket))
    listener.listen(8)
    kept: list[socket.socket] = []

    def answer_all() -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            kept.append(peer)
            if answer is not None and peer.recv(65536):
                peer.sendall(answer)

    locator = locate(lab, **located)
    thread = threading.Thread(target=answer_all)
    thread.start()

    def stop() -> None:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)
        for one in (listener, *kept):
            one.close()
        lab.socket.unlink(missing_ok=True)
        locator.unlink()

    lab.undo.append(stop)


def says(located: Mapping[str, object] = {}, **status: object) -> Act:
    """A daemon that is well but for this."""
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {**STATUS, **status}}).encode() + b"\n"
    return lambda lab: serve(lab, line, **located)


def locate(lab: Lab, **changed: object) -> Path:
    """A locator of this very process, but for what is changed."""
    lab.repository.ours.mkdir(0o700, exist_ok=True)
    facts = {
        "socket": str(lab.socket),
        "pid": os.getpid(),
        "start_time": process_start_time(os.getpid()),
        "boot_id": boot_id(),
        "host": os.uname().nodename,
        "instance": "here",
        "daemon_version": "9.0.0",
        "protocol_min": 1,
        "protocol_max": 1,
    }
    path = lab.repository.ours / "locator.json"
    path.write_bytes(locator_bytes(Locator(**{**facts, **changed})))
    return path


def _stopped(lab: Lab) -> None:
    daemon = lab.world.start(at_home=True)
    daemon.send(signal.SIGSTOP)
    lab.undo.append(daemon.kill)


def _go_on(lab: Lab) -> None:
    os.kill(lab.world.daemons()[0], signal.SIGCONT)


def _come_back(lab: Lab) -> None:
    """The daemon makes its socket again by itself."""
    _go_on(lab)
    wait_for(lab.socket.exists, "the daemon makes its socket anew")


def _without_socket(lab: Lab) -> None:
    _stopped(lab)
    lab.socket.unlink()


def _killed(lab: Lab) -> None:
    lab.world.start(at_home=True).kill()


def _start_failed(lab: Lab) -> None:
    lab.local.mkdir(0o700)
    record = Backoff(f"{lab.local}/{root_hash(lab.root)}.failed", lambda: 0.0)
    record.record(StartFailed("The settings cannot be used.", "Correct them."))


def ours(lab: Lab) -> Path:
    """Our folder in the repository, made."""
    lab.repository.ours.mkdir(0o700, exist_ok=True)
    return lab.repository.ours


def put(name: str, data: bytes) -> Callable[[Lab], None]:
    """Writes a file into our folder."""

    def make(lab: Lab) -> None:
        path = ours(lab) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    return make


def drop(*names: str) -> Act:
    """Removes files from it."""
    return lambda lab: [(lab.repository.ours / name).unlink() for name in names]


FAULTS = (
    Fault("stopped", "daemon-stopped", _stopped, _go_on, ("kill -CONT", "0.3 s"), seconds=0.3),
    Fault("hung", "daemon-silent", lambda lab: serve(lab, None), lambda lab: lab.undo.pop()(), ("did not answer",), seconds=0.2),
    Fault(
        "misfit",
        "daemon-misfit",
        says({"protocol_min": 7, "protocol_max": 9}),
        lambda lab: locate(lab),
        ("7 to 9", "cueloop daemon restart"),
    ),
    Fault("nonsense", "daemon-unusable", lambda lab: serve(lab, b"hello\n"), lambda lab: lab.undo.pop()(), ("not JSON",)),
    Fault(
        "older", "daemon-older", says(daemon_version="0.0.1"), lambda lab: lab.undo.pop()(), ("0.0.1", "cueloop daemon restart")
    ),
    Fault("newer", "daemon-newer", says(daemon_version="99.0.0"), lambda lab: lab.undo.pop()(), ("99.0.0",)),
    Fault("draining", "daemon-draining", says(state="draining"), lambda lab: lab.undo.pop()(), ("4242",)),
    Fault(
        "slow watch",
        "watcher-degraded",
        says(watcher={"degraded": True, "reason": "fs.inotify.max_user_watches"}),
        None,
        ("max_user_watches",),
    ),
    Fault(
        "event log", "event-log-degraded", says(events={"degraded": True, "reason": "no space left"}), None, ("no space left",)
    ),
    Fault("socket removed", "daemon-without-socket", _without_socket, _come_back, ("Process",)),
    Fault("killed: socket", "socket-stale", _killed, lambda lab: lab.socket.unlink(), ("d.sock",)),
    Fault("killed: locator", "locator-stale", _killed, drop("locator.json"), ("locator.json",)),
    Fault(
        "foreign locator: machine",
        "locator-foreign",
        lambda lab: locate(lab, host="elsewhere"),
        drop("locator.json"),
        ("elsewhere", "rm"),
    ),
    Fault(
        "foreign locator: repository",
        "locator-foreign",
        lambda lab: locate(lab, socket="/run/cueloopd/0000/d.sock"),
        drop("locator.json"),
        ("another repository",),
    ),
    Fault("foreign locator: nonsense", "locator-foreign", put("locator.json", b"[]"), drop("locator.json"), ("no locator",)),
    Fault(
        "start failed",
        "daemon-start-failed",
        _start_failed,
        lambda lab: shutil.rmtree(lab.local),
        ("The settings cannot be used.", "Correct them."),
    ),
    Fault("kept away", "daemon-kept-away", put("stopped", b""), drop("stopped"), ("cueloop daemon start",)),
)

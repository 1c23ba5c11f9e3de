"""A daemon of scripted runs over a real socket, and calls of run commands against it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from client.fakes import Connection, FakeDaemon, Handler, Recorder, make_world, serving
from cueloop_client.main import run
from cueloop_protocol.roots import Root

SECONDS = 20
RUN = "run-1"
SUMMARY = {"version": 2, "task_id": "RQ-1", "exit_code": 0, "outcome": "ran"}
STOPPED = {"version": 2, "task_id": None, "exit_code": 0, "outcome": "stopped"}

Hook = Callable[[Connection, dict[str, Any]], None]


def event(seq: int, kind: str, run_id: str | None = RUN, **members: Any) -> dict[str, Any]:
    """The notification of an event."""
    told = {"version": 3, "kind": kind, "timestamp": f"t{seq}", **members}
    whose = {"run_id": run_id, "origin": "run"} if run_id is not None else {"origin": "watch"}
    return notification(seq, "event", revision=seq, **whose, event=told)


def finished(seq: int, summary: Mapping[str, Any] = SUMMARY, run_id: str = RUN, **members: Any) -> dict[str, Any]:
    """The notification of a run's end."""
    return notification(seq, "run.finished", revision=seq, run_id=run_id, summary=summary, **members)


def notification(seq: int, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": {"subscription": "s", "cursor": f"e:{seq}", **params}}


STORY = [
    event(1, "run_started", payload={"config": {"version": 5}}),
    event(2, "task_selected", task_id="RQ-1", message="Do it"),
    event(3, "phase_entered", phase="implement"),
    event(4, "runner_output", stream="combined", payload={"text": "worked\n"}),
    event(5, "phase_completed", phase="implement"),
    finished(6),
]


class Script:
    """What the daemon does: `notes` for whoever subscribes (those after its cursor), `answers` for methods, `hooks` instead."""

    def __init__(self, notes: list[dict[str, Any]] | None = None, **answers: object) -> None:
        self.notes = STORY if notes is None else notes
        self.answers: dict[str, object] = {
            "run.start": {"run_id": RUN, "cursor": "e:0", "repeated": False},
            "config.resolve": {"document": {"safety": {"parallel_configured": False}}},
            "run.stop": {"run_id": RUN, "state": "stopping"},
            "run.cancel": {"run_id": RUN, "summary": STOPPED},
            **{name.replace("_", ".", 1): value for name, value in answers.items()},
        }
        self.hooks: dict[str, Hook] = {}
        self.subscribers: list[Connection] = []
        self.snapshot: dict[str, Any] = {}

    def __call__(self, connection: Connection, request: dict[str, Any]) -> None:
        method = request["method"]
        if method in self.hooks:
            self.hooks[method](connection, request)
        elif method == "events.subscribe":
            self.subscribe(connection, request)
        else:
            answer = self.answers[method]
            if isinstance(answer, list):
                answer = answer.pop(0) if len(answer) > 1 else answer[0]
            if isinstance(answer, Exception):
                connection.refuse(request, answer.to_wire())  # type: ignore[attr-defined]
            else:
                connection.answer(request, answer)

    def subscribe(self, connection: Connection, request: dict[str, Any]) -> None:
        """Answer, and send what comes after the cursor (without one: all)."""
        cursor = request["params"].get("cursor", "e:0")
        connection.answer(request, {"subscription": "s", "cursor": cursor, "snapshot": self.snapshot})
        self.subscribers.append(connection)
        after = int(cursor.split(":")[1])
        for note in self.notes:
            if int(note["params"]["cursor"].split(":")[1]) > after:
                connection.send(note)

    def tell(self, note: dict[str, Any]) -> None:
        """Send to all subscribers, and to those that come."""
        self.notes = [*self.notes, note]
        for connection in self.subscribers:
            connection.send(note)


class Called:
    """How a command ended, what it printed, and what the daemon was asked."""

    def __init__(self, code: int, recorder: Recorder, received: list[dict[str, Any]]) -> None:
        self.code = code
        self.out = recorder.out
        self.err = recorder.err
        self.received = received

    def params(self, method: str) -> list[dict[str, Any]]:
        """The params of all requests of a method."""
        return [message["params"] for message in self.received if message.get("method") == method]


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """The block takes no longer than that; a command that waits for what never comes is a failure and not a test that hangs."""

    def fail(number: int, frame: object) -> None:
        raise AssertionError(f"still waiting after {seconds} s")

    old = signal.signal(signal.SIGALRM, fail)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)


def call(
    root: Root, environ: Mapping[str, str], script: Handler, line: str, *, lines: tuple[str, ...] = (), terminal: bool = False
) -> Called:
    """Call a command against a daemon; `lines` are typed."""
    recorder = Recorder()
    with serving(root, environ, script) as daemon, within(SECONDS):
        code = run(["--repo", root.path, *line.split()], make_world(environ, recorder, lines=lines, terminal=terminal))
    return Called(code, recorder, daemon.received)


__all__ = ["RUN", "STOPPED", "STORY", "SUMMARY", "Called", "FakeDaemon", "Script", "call", "event", "finished", "notification"]

"""Runs with the real daemon, shim and program, and an agent that is a script: what survives the daemon, and what it leaves behind."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.fixtures import world as world
from support.repository import queue, session, task
from support.wire import Refused, Wire
from support.world import Daemon, World

INIT = '{"type":"system","subtype":"init","session_id":"550e8400-e29b-41d4-a716-446655440000"}'
RESULT = (
    '{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"550e8400-e29b-41d4-a716-446655440000"}'
)
AGENT = f"""#!/bin/sh
cat > /dev/null
echo $$ >> pids
echo '{INIT}'
while [ ! -e go ]; do sleep 0.02; done
echo '{RESULT}'
"""
"""An agent that waits for the file `go`, and notes each start of itself."""


@pytest.fixture
def rig(world: World) -> Iterator[Rig]:
    rig = Rig(world)
    yield rig
    rig.end_all()


class Rig:
    """A repository whose only runner is the script."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.path = world.repository.path
        agent = world.folder / "claude"
        agent.write_text(AGENT)
        agent.chmod(0o755)
        world.repository.configure(runner="claude", model="sonnet", claude_bin=str(agent), phases=1, git_revert_mode="disabled")
        trust = {"allow_project_commands": True, "trusted_at": "2026-02-07T10:00:00Z"}
        (world.repository.folder / "trust.jsonc").write_text(json.dumps(trust))
        world.repository.queue.write_bytes(queue(task(1, "todo"), task(2, "todo")))

    @property
    def ours(self) -> Path:
        return self.world.repository.ours

    def start(self, wire: Wire, **asked: Any) -> dict[str, Any]:
        env = {**self.world.environ, "HOME": str(self.world.home)}
        return dict(wire.call("run.start", **{"mode": "one", "env": env, **asked}))

    def go(self) -> None:
        """Let agents finish."""
        (self.path / "go").touch()

    def agents(self) -> list[int]:
        """The pids of all agents that ever began."""
        path = self.path / "pids"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def until(self, condition: Callable[[], object], seconds: float = 20) -> None:
        """Look again and again; what is waited for happens in other processes."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def shim(self) -> int | None:
        """The pid of the shim that `active.json` names."""
        path = self.ours / "active.json"
        if not path.exists():
            return None
        shim = json.loads(path.read_text()).get("shim")
        return None if shim is None else int(shim["pid"])

    def end_all(self) -> None:
        """End what a test left running: shims first, or they would bring daemons back."""
        (self.ours / "stopped").touch()
        for file in self.ours.glob("runs/*/shim.json"):
            _end(json.loads(file.read_text())["pid"])
        for pid in self.agents():
            _end(pid)


def _end(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


def finished(wire: Wire, seconds: float = 20) -> list[dict[str, Any]]:
    """Notifications up to and with `run.finished`."""
    notes: list[dict[str, Any]] = []
    while not notes or notes[-1]["method"] != "run.finished":
        notes.append(wire.note(seconds))
    return notes


def kinds(notes: list[dict[str, Any]]) -> list[str]:
    """What was told, by kind; the method of what is no event."""
    return [note["params"]["event"]["kind"] if note["method"] == "event" else note["method"] for note in notes]


WHOLE = [
    "run_started",
    "task_selected",
    "queue_snapshot",
    "phase_entered",
    "runner_output",
    "phase_completed",
    "queue_snapshot",
    "run.finished",
]


def test_a_run_from_start_to_end(rig: Rig) -> None:
    daemon = rig.world.start(at_home=True)
    rig.go()
    with daemon.connect() as wire:
        began = rig.start(wire)
        wire.subscribe(cursor=began["cursor"], run_id=began["run_id"])
        notes = finished(wire)
        assert [kind for kind in kinds(notes) if kind != "runner_output"] == [k for k in WHOLE if k != "runner_output"]
        assert notes[-1]["params"]["summary"] == {"version": 2, "task_id": "RQ-0001", "exit_code": 0, "outcome": "ran"}
        assert {note["params"].get("origin") for note in notes if note["method"] == "event"} == {"run"}
        got = wire.call("run.get", run_id=began["run_id"])["run"]
        assert (got["state"], got["task_id"], got["questions"]) == ("finished", "RQ-0001", [])
        output = wire.call("run.output", run_id=began["run_id"])
        assert output["text"] == f"{INIT}\n{RESULT}\n"
        assert (output["complete"], output["total"], output["next_offset"]) == (True, len(output["text"]), len(output["text"]))
        assert [run["run_id"] for run in wire.call("run.list")["runs"]] == [began["run_id"]]
        rig.until(lambda: not (rig.ours / "active.json").exists())
    assert not rig.world.repository.session.exists()
    assert daemon.stop() == 0


def test_c09_the_watch_announces_nothing_that_the_run_did(rig: Rig) -> None:
    daemon = rig.world.start(at_home=True)
    rig.go()
    with daemon.connect() as wire:
        wire.subscribe()
        rig.start(wire)
        notes = finished(wire)
        assert [note["params"]["origin"] for note in notes if note["method"] == "event"].count("watch") == 0
        assert kinds(notes).count("queue_snapshot") == 2
        rig.world.repository.put(rig.world.repository.queue, queue(task(2, "todo"), task(3, "todo")))
        later = [wire.note() for _ in range(1)]
        assert [(note["params"]["origin"], note["params"]["event"]["kind"]) for note in later] == [("watch", "queue_snapshot")]


def test_e03_a_killed_daemon_is_succeeded_by_one_that_the_shim_starts_or_anybody_and_the_run_goes_on(rig: Rig) -> None:
    daemon = rig.world.start(at_home=True)
    with daemon.connect() as wire:
        began = rig.start(wire)
        rig.until(rig.agents)
        daemon.kill()
    second = rig.world.start(at_home=True)
    with second.connect() as wire:
        begun = time.monotonic()
        with pytest.raises(Refused) as refused:
            rig.start(wire)
        assert refused.value.data["run_id"] == began["run_id"]
        rig.until(
            lambda: wire.call("hello", client={"name": "t"}, protocol={"min": 1, "max": 1})["active_run"]["state"] == "running"
        )
        assert time.monotonic() - begun < 2
        wire.subscribe(cursor=began["cursor"])
        rig.go()
        notes = finished(wire)
        assert kinds(notes)[0] == "run_started"
        # The second one may tell once more what the first had not yet put down as told: a queue that is another than it knew.
        notes = [note for note in notes if note["method"] != "event" or note["params"]["origin"] != "watch"]
        assert [kind for kind in kinds(notes) if kind not in ("runner_output",)] == [k for k in WHOLE if k != "runner_output"]
        assert wire.call("run.output", run_id=began["run_id"])["text"] == f"{INIT}\n{RESULT}\n"
    assert len(rig.agents()) == 1
    assert not any(alive(pid) for pid in rig.agents())


def test_sigterm_leaves_the_run_and_a_marker_and_a_start_clears_it(rig: Rig) -> None:
    daemon = rig.world.start(at_home=True)
    with daemon.connect() as wire:
        began = rig.start(wire)
        rig.until(rig.agents)
    assert daemon.stop() == 0
    assert (rig.ours / "stopped").exists()
    (agent,) = rig.agents()
    assert alive(agent)
    shim = rig.shim()
    assert shim is not None
    assert alive(shim)
    second = rig.world.start(at_home=True)
    rig.until(lambda: not (rig.ours / "stopped").exists())
    with second.connect() as wire:
        wire.subscribe(cursor=began["cursor"])
        rig.go()
        assert finished(wire)[-1]["params"]["summary"]["outcome"] == "ran"
    assert second.stop() == 0
    assert not (rig.ours / "stopped").exists()


def test_shutdown_refuses_leaves_or_cancels(rig: Rig) -> None:
    daemon = rig.world.start(at_home=True)
    with daemon.connect() as wire:
        began = rig.start(wire)
        rig.until(rig.agents)
        with pytest.raises(Refused) as refused:
            wire.call("daemon.shutdown")
        assert (refused.value.data["name"], refused.value.data["run_id"]) == ("run_active", began["run_id"])
        assert "--leave-runs" in refused.value.data["error"]["detail"]
        assert wire.call("daemon.shutdown", runs="leave")["runs_left"] == [began["run_id"]]
    assert daemon.process.wait(20) == 0
    second = rig.world.start(at_home=True)
    with second.connect() as wire:
        assert wire.call("daemon.shutdown", runs="cancel")["runs_left"] == []
    assert second.process.wait(20) == 0
    assert not any(alive(pid) for pid in rig.agents())
    third = rig.world.start(at_home=True)
    with third.connect() as wire:
        assert wire.call("run.get", run_id=began["run_id"])["run"]["summary"]["outcome"] == "stopped"
    assert rig.world.repository.session.exists()  # it stays, and the task stays `doing`
    assert json.loads(rig.world.repository.queue.read_text())["tasks"][0]["status"] == "doing"


def test_cancel_is_answered_when_nothing_is_left(rig: Rig) -> None:
    daemon = rig.world.start(at_home=True)
    with daemon.connect() as wire, daemon.connect() as other:
        began = rig.start(wire)
        other.subscribe(cursor=began["cursor"])
        rig.until(rig.agents)
        result = wire.call("run.cancel")
        assert result["summary"] == {"version": 2, "task_id": None, "exit_code": 0, "outcome": "stopped"}
        assert not any(alive(pid) for pid in rig.agents())
        assert not rig.world.repository.lock.exists()
        assert finished(other)[-1]["params"]["run_id"] == began["run_id"]
        assert wire.call("run.cancel", run_id=began["run_id"])["summary"] == result["summary"]


def test_a_killed_shim_ends_the_run_once_and_its_agent_with_it(rig: Rig) -> None:
    daemon = rig.world.start(at_home=True)
    with daemon.connect() as wire:
        began = rig.start(wire)
        wire.subscribe(cursor=began["cursor"])
        rig.until(rig.agents)
        shim = rig.shim()
        assert shim is not None
        os.kill(shim, signal.SIGKILL)
        notes = finished(wire)
        assert notes[-1]["params"]["summary"]["outcome"] == "failed"
        assert not any(alive(pid) for pid in rig.agents())
        assert not rig.world.repository.lock.exists()
        assert rig.world.repository.session.exists()
        assert wire.call("daemon.status").get("active_run") is None


def test_daemon_and_shim_killed_the_next_daemon_settles_the_run_once(rig: Rig) -> None:
    daemon = rig.world.start(at_home=True)
    with daemon.connect() as wire:
        began = rig.start(wire)
        rig.until(rig.agents)
        shim = rig.shim()
        assert shim is not None
        daemon.kill()
        os.kill(shim, signal.SIGKILL)
    for _ in range(2):
        daemon = rig.world.start(at_home=True)
        with daemon.connect() as wire:
            wire.subscribe(cursor=began["cursor"])
            notes = finished(wire)
            assert notes[-1]["params"]["summary"]["outcome"] == "failed"
            while not wire.is_quiet(0.3):  # the watch has its say after the run
                notes.append(wire.note())
            assert kinds(notes).count("run.finished") == 1
        assert daemon.stop() == 0
    assert not any(alive(pid) for pid in rig.agents())


def test_no_daemon_believes_active_json_while_the_shim_lives_and_no_longer(rig: Rig) -> None:
    daemon = rig.world.start(at_home=True)
    with daemon.connect() as wire:
        began = rig.start(wire)
        rig.until(rig.agents)
        told = wire.call("config.resolve", caller=rig.world.caller)["active_run"]
    daemon.kill()

    def direct() -> dict[str, Any]:
        done = rig.world.run("--no-daemon", "session", "show", "--json")
        assert done.returncode in (0, 1), done.stderr
        from cueloop_daemon import direct as without
        from cueloop_protocol.roots import Caller, open_root

        return without.answer("config.resolve", {}, open_root(str(rig.path)), Caller(str(rig.world.home), None))

    run = direct()["active_run"]
    assert (run["run_id"], run["shim"]) == (began["run_id"], told["shim"])
    os.kill(told["shim"]["pid"], signal.SIGKILL)
    rig.until(lambda: not alive(told["shim"]["pid"]))
    assert direct().get("active_run") is None


def test_two_clients_confirm_in_one_moment_and_one_run_begins(rig: Rig) -> None:
    rig.world.repository.queue.write_bytes(queue(task(1, "doing"), task(2, "todo")))
    rig.world.repository.session.write_bytes(session())
    daemon = rig.world.start(at_home=True)
    with daemon.connect() as one, daemon.connect() as two:
        with pytest.raises(Refused) as asked:
            rig.start(one, interactive=True)
        assert asked.value.data["name"] == "confirmation_required"
        assert asked.value.data["choices"] == ["resume", "fresh"]
        answer = {"choice": "resume", "session_etag": asked.value.data["session_etag"]}
        params = {"mode": "one", "interactive": True, "answer": answer, "env": rig.world.environ}
        for wire in (one, two):
            wire.send(json.dumps({"jsonrpc": "2.0", "id": 99, "method": "run.start", "params": params}).encode() + b"\n")
        answers = [one.answer(), two.answer()]
        (won,) = [answer["result"]["run_id"] for answer in answers if "result" in answer]
        (lost,) = [answer["error"]["data"] for answer in answers if "error" in answer]
        assert (lost["name"], lost["run_id"]) == ("run_active", won)
        one.call("run.cancel")


def test_f02_a_run_survives_its_record(rig: Rig) -> None:
    """The record deleted under a run: the run is ended, told to be over, and the next one begins with a new record."""
    daemon: Daemon = rig.world.start(at_home=True)
    with daemon.connect() as wire:
        rig.start(wire)
        rig.until(rig.agents)
        for file in rig.ours.glob("runs.db*"):
            file.unlink()
        assert wire.call("run.cancel")["summary"]["outcome"] == "stopped"
        assert not any(alive(pid) for pid in rig.agents())
        assert not rig.world.repository.lock.exists()
        rig.go()
        again = rig.start(wire)
        wire.subscribe(cursor=again["cursor"])
        assert finished(wire)[-1]["params"]["run_id"] == again["run_id"]

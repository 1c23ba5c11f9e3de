"""Runs of real agents' stand-ins: how one behaves is a few lines of Python (`support/agent.py` has the words)."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.programs import python_program
from support.repository import IGNORED, git, queue, task
from support.wire import Wire, wait_for
from support.world import World

AGENT = Path(__file__).with_name("agent.py")
TRUST = b'{"allow_project_commands": true, "trusted_at": "2026-02-07T10:00:00Z"}'
SECONDS = 30.0
Fact = dict[str, Any]


@dataclass(frozen=True)
class Stage:
    """A repository under git whose runner is the stand-in, and the folder in which the stand-in keeps what it was told."""

    world: World
    folder: Path

    @classmethod
    def make(cls, world: World, act: str = "work()", *, tasks: tuple[Fact, ...] = (), **agent: object) -> Stage:
        """`act`: what each call does. `tasks`: the queue, RQ-0001 to do unless given. `agent`: more of the configuration."""
        folder = world.folder / "agent"
        folder.mkdir()
        stage = cls(world, folder)
        python_program(folder / "claude", AGENT.read_text(), "-IS")
        stage.act(act)
        repository = world.repository
        (repository.folder / "trust.jsonc").write_bytes(TRUST)
        repository.queue.write_bytes(queue(*(tasks or (task(1, "todo"),))))
        stage.configure(**agent)
        (repository.path / ".gitignore").write_text(IGNORED)
        git(repository.path, "init", "-q")
        git(repository.path, "add", "-A")
        git(repository.path, "commit", "-qm", "start")
        return stage

    def configure(self, **agent: object) -> None:
        """Replace the project's configuration: one phase by the stand-in, no notifications, and what is given."""
        usual: Fact = {
            "runner": "claude", "model": "sonnet", "claude_bin": str(self.folder / "claude"), "phases": 1, "git_revert_mode": "disabled",
            "notification": {"enabled": False}, "runner_retry": {"max_attempts": 1}, "phase_overrides": dict.fromkeys(PHASES, SONNET),
        }  # fmt: skip
        self.world.repository.configure(**(usual | agent))

    def act(self, code: str) -> None:
        """From now on each call does this."""
        new = self.folder / "act.new"
        new.write_text(code)
        new.rename(self.folder / "act.py")

    def make_file(self, name: str) -> None:
        """What the stand-in's `wait_for` waits for."""
        (self.folder / name).touch()

    def calls(self) -> list[Fact]:
        """What the stand-in was called with, in order."""
        path = self.folder / "calls.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def was_called(self, times: int = 1) -> None:
        """Return when it has been called so often."""
        wait_for(lambda: len(self.calls()) >= times, f"call {times} of the agent", SECONDS)

    def statuses(self) -> tuple[dict[str, str], dict[str, str]]:
        """The tasks in the queue and in the done file, each with its status."""
        folder = self.world.repository.folder
        return _statuses(folder / "queue.jsonc"), _statuses(folder / "done.jsonc")

    def processes(self) -> list[int]:
        """The live processes that belong to a run of this repository, shims aside: those whose environment says so."""
        return [pid for pid in _pids() if _is_of_a_run_in(pid, self.folder)]

    def settings(self, **settings: object) -> None:
        """The user's own settings of the daemon."""
        folder = self.world.home / ".config" / "cueloop"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cueloopd.jsonc").write_text(json.dumps(settings))


SONNET = {"model": "sonnet"}
PHASES = ("phase1", "phase2", "phase3")


@dataclass(frozen=True)
class Told:
    """What a `machine run …` said: its events, its summary, the error document, and how it exited."""

    events: list[Fact]
    summary: Fact | None
    error: Fact | None
    code: int

    @classmethod
    def of(cls, out: bytes, err: bytes, code: int) -> Told:
        lines = [json.loads(line) for line in out.splitlines()]
        error = json.loads(err) if err else None
        return cls(
            [line for line in lines if "kind" in line], next((line for line in lines if "outcome" in line), None), error, code
        )

    @property
    def outcome(self) -> str:
        assert self.summary is not None, (self.events, self.error)
        outcome: str = self.summary["outcome"]
        return outcome

    @property
    def kinds(self) -> list[str]:
        return [event["kind"] for event in self.events]

    @property
    def warnings(self) -> list[str]:
        return [event["message"] for event in self.events if event["kind"] == "warning"]

    @property
    def output(self) -> str:
        return "".join(event["payload"]["text"] for event in self.events if event["kind"] == "runner_output")


def machine_run(stage: Stage, mode: str = "one", *flags: str, environ: dict[str, str] | None = None) -> Told:
    """`cueloop machine run …` to its end."""
    done = stage.world.run("machine", "run", mode, *flags, environ=environ)
    return Told.of(done.stdout, done.stderr, done.returncode)


def start(wire: Wire, stage: Stage, mode: str = "one", **params: object) -> str:
    """`run.start`; the run's id."""
    told = wire.call("run.start", mode=mode, env=stage.world.environ, caller=stage.world.caller, **params)
    run_id: str = told["run_id"]
    return run_id


def finished(wire: Wire, run_id: str, seconds: float = SECONDS) -> Fact:
    """The run's record when it is over."""
    record: Fact = {}

    def is_over() -> bool:
        record.update(wire.call("run.get", run_id=run_id)["run"])
        return bool(record["state"] == "finished")

    wait_for(is_over, f"the end of run {run_id}", seconds)
    return record


@contextmanager
def nothing_left(stage: Stage) -> Iterator[None]:
    """After the block no process of a run is left; whatever the block did, they are ended."""
    try:
        yield
    finally:
        left = stage.processes()
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert left == [], [_command(pid) for pid in left]


def _statuses(path: Path) -> dict[str, str]:
    return {row["id"]: row.get("status", "todo") for row in json.loads(path.read_text())["tasks"]} if path.exists() else {}


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _is_of_a_run_in(pid: int, folder: Path) -> bool:
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    is_here = any(entry.startswith(b"XDG_RUNTIME_DIR=" + os.fsencode(folder.parent) + b"/") for entry in environ)
    return state not in "ZX" and is_here and any(entry.startswith(b"CUELOOP_RUN_ID=") for entry in environ)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return "gone"

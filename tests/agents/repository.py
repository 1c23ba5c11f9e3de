"""A repository with one task, a CI gate and a real CLI as its runner; `cueloop` is called in it as a person's shell would call it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agents.cli import Cli, Line, Place, json_lines, write_file
from agents.standin import StandIn
from agents.workshop import environment, lay_programs

CUELOOP = Path(sys.executable).with_name("cueloop")
TITLE = "Plant a marigold"
TASK_ID = "CL-0001"
CREATED = "2026-02-07T10:00:00.000000000Z"
GATE_SAYS = "the test of the flower bed failed"
LIMIT = 300.0
"""Seconds for one command of ours, which may run an agent three times."""


@dataclass(frozen=True)
class Repository:
    """See `repository`."""

    place: Place
    variables: Mapping[str, str]

    def cueloop(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Calls our command in the repository, nobody at the terminal. Raises subprocess.TimeoutExpired."""
        return subprocess.run(
            [CUELOOP, *arguments],
            cwd=self.place.project,
            env=dict(self.variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )

    def status_in(self, name: str) -> str | None:
        """The task's status in `queue` or `done`; None: it is not there."""
        path = self.place.project / f".cueloop/{name}.jsonc"
        tasks = json.loads(path.read_text())["tasks"] if path.exists() else []
        return next((str(task["status"]) for task in tasks if task["id"] == TASK_ID), None)

    @property
    def has_session(self) -> bool:
        return (self.place.project / ".cueloop/cache/session.jsonc").exists()


def continue_decisions(output: str) -> list[tuple[str, str]]:
    """Status and reason of the decisions about the agent's own conversation, in order, from the lines of a machine run."""
    found: list[tuple[str, str]] = []
    for line in json_lines(output):
        match line:
            case {"kind": "resume_decision", "payload": {"scope": "continue_session", "status": status, "reason": reason}}:
                found.append((str(status), str(reason)))
    return found


def summary_of(output: str) -> Line:
    """The last line of a machine run."""
    return json_lines(output)[-1]


def _config(cli: Cli, gate: Path) -> str:
    agent = {
        "runner": cli.runner,
        f"{cli.runner}_bin": cli.name,
        "model": cli.model,
        "phases": 1,
        "git_revert_mode": "disabled",
        "ci_gate": {"enabled": True, "argv": [str(gate)]},
        "notification": {"enabled": False},
        "runner_retry": {"max_attempts": 1},
        "phase_overrides": {"phase2": {"model": cli.model}},  # the built-in one stands above the model of the agent
    }
    return json.dumps({"version": 2, "agent": agent, "queue": {"id_prefix": TASK_ID.partition("-")[0]}})


def _git(place: Place, variables: Mapping[str, str], *arguments: str) -> None:
    person = ("-c", "user.name=Person", "-c", "user.email=person@example.com")
    subprocess.run(
        ["git", *person, *arguments], cwd=place.project, env=dict(variables), check=True, capture_output=True, timeout=60
    )


@contextmanager
def repository(cli: Cli, base: Path, stand_in: StandIn, gate_script: str = "exit 0") -> Iterator[Repository]:
    """Lays everything out under `base` and stops the daemon at the end. `gate_script`: shell, called as the CI gate."""
    place = Place(base / "home", base / "project", stand_in.port)
    lay_programs(place)
    variables = environment(cli, place, stand_in)
    gate = base / "gate"
    write_file(gate, f"#!/bin/sh\n{gate_script}\n")
    gate.chmod(0o700)
    task = {"id": TASK_ID, "status": "todo", "title": TITLE, "created_at": CREATED, "updated_at": CREATED}
    write_file(place.project / ".cueloop/queue.jsonc", json.dumps({"version": 1, "tasks": [task]}))
    write_file(place.project / ".cueloop/config.jsonc", _config(cli, gate))
    write_file(place.project / ".cueloop/trust.jsonc", json.dumps({"allow_project_commands": True, "trusted_at": CREATED}))
    write_file(place.project / ".gitignore", ".cueloop/cache/\n.cueloop/lock/\n")
    _git(place, variables, "add", ".")
    _git(place, variables, "commit", "--quiet", "-m", "A garden")
    laid = Repository(place, variables)
    try:
        yield laid
    finally:
        laid.cueloop("daemon", "stop", "--cancel-runs")

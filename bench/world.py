"""A repository to measure in, a daemon for it, and an environment that nothing of the user's gets into."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.processes import end

STAMP = "2026-01-01T00:00:00.000000000Z"


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured. Everything that the bars speak of is in the full scale."""

    runs: int = 7
    requests: int = 4000
    changes: int = 60
    subscribers: int = 1000
    tasks: int = 10_000
    task_bytes: int = 1200
    idle_seconds: float = 5.0
    output_megabytes: int = 100


QUICK = Scale(runs=1, requests=50, changes=3, subscribers=20, tasks=400, task_bytes=800, idle_seconds=0.3, output_megabytes=2)
"""Enough to see that the benchmarks work; the figures mean nothing."""


@dataclass(frozen=True, slots=True)
class World:
    """A git repository with ten tasks and an interrupted session, and the environment for everything that is started in it."""

    root: Path
    env: dict[str, str]
    scale: Scale

    @property
    def queue(self) -> Path:
        return self.root / ".cueloop" / "queue.jsonc"

    @property
    def session(self) -> Path:
        return self.root / ".cueloop" / "cache" / "session.jsonc"

    def run(self, *argv: str) -> None:
        """Run a command in the repository; CalledProcessError if it fails."""
        subprocess.run(argv, cwd=self.root, env=self.env, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def replace(self, path: Path, text: str) -> None:
        """Write a file as editors do: a temporary file and a rename."""
        new = path.with_name(f"{path.name}.new")
        new.write_text(text)
        new.rename(path)

    def in_folder(self, name: str) -> World:
        """Another world like this one, beside it."""
        made = replace(self, root=self.root.parent / name)
        _lay_out(made)
        return made


@contextmanager
def new_world(scale: Scale) -> Iterator[World]:
    """A world in a temporary folder, which is removed at the end."""
    with TemporaryDirectory(prefix="clbench-") as folder:
        base = Path(folder).resolve()
        (base / "home").mkdir()
        (base / "run").mkdir(mode=0o700)
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
        env = kept | {"HOME": str(base / "home"), "XDG_RUNTIME_DIR": str(base / "run"), "GIT_CONFIG_NOSYSTEM": "1"}
        world = World(base / "repo", env, scale)
        _lay_out(world)
        yield world


def _lay_out(world: World) -> None:
    (world.root / ".cueloop" / "cache").mkdir(parents=True)
    world.queue.write_text(queue_text(10))
    (world.root / ".gitignore").write_text(".cueloop/cache/\n")
    (world.root / "main.py").write_text("print('hello')\n")
    world.run("git", "init", "-q")
    world.run("git", "add", "-A")
    world.run("git", "-c", "user.name=bench", "-c", "user.email=bench@example.org", "commit", "-q", "-m", "first")
    world.session.write_text(session_text(1))


def queue_text(tasks: int, *, task_bytes: int = 200, note: str = "") -> str:
    """A queue file of `tasks` tasks, each about `task_bytes` long, with comments and trailing commas. The first is `doing`."""
    rows = (_task_text(number, task_bytes) for number in range(1, tasks + 1))
    return f'// The queue. {note}\n{{\n  "version": 1,\n  "tasks": [\n' + "".join(rows) + "  ],\n}\n"


def _task_text(number: int, length: int) -> str:
    task: dict[str, Any] = {
        "id": f"RQ-{number:05d}",
        "status": "doing" if number == 1 else "todo",
        "title": f"Task number {number}",
        "priority": "medium",
        "tags": ["bench"],
        "depends_on": [] if number < 3 else [f"RQ-{number - 1:05d}"],
        "created_at": STAMP,
        "updated_at": STAMP,
        "description": "",
    }
    text = json.dumps(task, indent=6)
    task["description"] = "What is to be done, in words. "[: max(0, length - len(text))] + "x" * max(0, length - len(text) - 50)
    return f"    // {number}\n    {json.dumps(task, indent=6)},\n"


def session_text(iterations: int) -> str:
    """A session file of the task that is `doing`; `iterations` makes one differ from another."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000000000Z")
    session = {
        "version": 1,
        "session_id": "0b6f2c5e-8f0e-4a51-9a8e-6f1b53a0c111",
        "task_id": "RQ-00001",
        "run_started_at": now,
        "last_updated_at": now,
        "iterations_planned": 200,
        "iterations_completed": iterations,
        "current_phase": 2,
        "runner": "claude",
        "model": "sonnet",
        "tasks_completed_in_loop": 0,
        "max_tasks": 0,
    }
    return json.dumps(session, indent=2) + "\n"


@dataclass(frozen=True, slots=True)
class Daemon:
    """A daemon that serves."""

    pid: int
    socket: str


@contextmanager
def daemon(world: World) -> Iterator[Daemon]:
    """A daemon for the world's repository, ended at the end. RuntimeError with its own words if it does not start."""
    near, far = os.pipe()
    argv = (sys.executable, "-m", "cueloop_daemon", "--root", str(world.root), "--ready-fd", str(far))
    child = subprocess.Popen(argv, env=world.env, pass_fds=(far,), stdin=subprocess.DEVNULL)
    os.close(far)
    try:
        with open(near, encoding="utf-8") as pipe:
            said = json.loads(pipe.readline() or "{}")
        if "ready" not in said:
            raise RuntimeError(f"the daemon did not start: {said}")
        yield Daemon(child.pid, said["ready"]["socket"])
    finally:
        child.terminate()
        child.wait(10)


def cueloop(world: World, *arguments: str) -> list[str]:
    """The command line of this installation, for the world's repository."""
    script = Path(sys.executable).with_name("cueloop")
    program = [str(script)] if script.exists() else [sys.executable, "-m", "cueloop_client"]
    return [*program, "--repo", str(world.root), *arguments]


def end_daemon(world: World) -> None:
    """End the daemon that a command started, and return when it is gone."""
    locator = world.root / ".cueloop" / "cache" / "cueloopd" / "locator.json"
    if locator.exists():
        end(int(json.loads(locator.read_text())["pid"]))

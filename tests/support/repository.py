"""A sample repository for tests of the whole daemon, and the other programs that write into it."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

STAMP = "2026-02-07T10:00:00.000000000Z"
IGNORED = ".cueloop/cache/\n.cueloop/lock/\n"


def stamp(ago: timedelta = timedelta()) -> str:
    """The moment `ago` before now, as session files have it."""
    return (datetime.now(UTC) - ago).strftime("%Y-%m-%dT%H:%M:%S.%f") + "000Z"


def session(ago: timedelta = timedelta(minutes=5), **changes: object) -> bytes:
    """A session of RQ-0001 in phase 2, five minutes old unless said otherwise."""
    fields: dict[str, object] = {
        "version": 1,
        "session_id": "550e8400-e29b-41d4-a716-446655440000",
        "task_id": "RQ-0001",
        "run_started_at": stamp(ago + timedelta(minutes=10)),
        "last_updated_at": stamp(ago),
        "iterations_planned": 2,
        "iterations_completed": 1,
        "current_phase": 2,
        "runner": "claude",
        "model": "sonnet",
        "tasks_completed_in_loop": 0,
        "max_tasks": 10,
    }
    return json.dumps(fields | changes, indent=2).encode()


def task(number: int, status: str, **more: object) -> dict[str, object]:
    """One task of a queue."""
    fields: dict[str, object] = {"id": f"RQ-{number:04d}", "status": status, "title": f"Task {number}"}
    return fields | {"created_at": STAMP, "updated_at": STAMP} | more


def queue(*tasks: dict[str, object]) -> bytes:
    """A queue file; by default RQ-0001 is doing and RQ-0002 is to do."""
    return json.dumps({"version": 1, "tasks": tasks or (task(1, "doing"), task(2, "todo"))}, indent=2).encode()


def git(path: Path, *arguments: str) -> None:
    """Run git there, whatever the user's own settings are."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(path), "GIT_CONFIG_NOSYSTEM": "1"}
    settings = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *settings, *arguments], cwd=path, env=environ, check=True, capture_output=True)


@dataclass(frozen=True)
class Repository:
    """A repository at `path`."""

    path: Path

    @property
    def folder(self) -> Path:
        return self.path / ".cueloop"

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    @property
    def ours(self) -> Path:
        return self.cache / "cueloopd"

    @property
    def session(self) -> Path:
        return self.cache / "session.jsonc"

    @property
    def queue(self) -> Path:
        return self.folder / "queue.jsonc"

    @property
    def config(self) -> Path:
        return self.folder / "config.jsonc"

    @property
    def lock(self) -> Path:
        return self.folder / "lock"

    def lay(self, *, with_git: bool = False) -> Repository:
        """Make it: a queue of two tasks, no session."""
        self.cache.mkdir(parents=True)
        self.queue.write_bytes(queue())
        if with_git:
            (self.path / ".gitignore").write_text(IGNORED)
            git(self.path, "init", "-q")
            git(self.path, "add", "-A")
            git(self.path, "commit", "-qm", "start")
        return self

    def put(self, path: Path, data: bytes) -> None:
        """As other programs save: a file of its own, renamed into place."""
        other = path.with_name(f".{path.name}.other")
        other.write_bytes(data)
        os.rename(other, path)

    def configure(self, **agent: object) -> None:
        """Replace the project's configuration."""
        self.put(self.config, json.dumps({"version": 2, "agent": agent}).encode())

    def take_lock(self, label: str, pid: int) -> None:
        """As the other tool takes the queue lock."""
        self.lock.mkdir()
        (self.lock / "owner").write_text(f"pid: {pid}\nstarted_at: {STAMP}\ncommand: cueloop {label}\nlabel: {label}\n")

    def release_lock(self) -> None:
        """As the other tool lets it go."""
        (self.lock / "owner").unlink()
        self.lock.rmdir()

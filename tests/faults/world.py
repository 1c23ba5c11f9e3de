"""A repository with a session store over it, and the other program that writes the same file."""

from __future__ import annotations

import itertools
import json
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cueloop_daemon.store.atomic import Author
from cueloop_daemon.store.etag import etag_of_bytes
from cueloop_daemon.store.history import History
from cueloop_daemon.store.session_store import SessionStore
from cueloop_daemon.store.system import System
from cueloop_protocol.identity import process_start_time
from cueloop_protocol.roots import Root

START = datetime(2026, 2, 7, 10, 0, tzinfo=UTC)


def session(mark: str, task_id: str = "RQ-0001") -> bytes:
    """A session file that can be told from others by `mark`."""
    document = {"version": 1, "session_id": mark, "task_id": task_id, "current_phase": 2, "runner": "claude", "model": "sonnet"}
    return json.dumps(document, indent=2).encode()


def this_process() -> Author:
    return Author(os.getpid(), process_start_time(os.getpid()) or "unknown")


@dataclass
class World:
    """`path` is the repository."""

    path: Path
    system: System = field(default_factory=System)
    author: Author = field(default_factory=this_process)
    owned: bool = True
    ticks: itertools.count[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        (self.path / ".cueloop" / "cache").mkdir(parents=True, exist_ok=True)

    @property
    def root(self) -> Root:
        return Root(str(self.path), str(self.path))

    @property
    def cache(self) -> Path:
        return self.path / ".cueloop" / "cache"

    @property
    def file(self) -> Path:
        return self.cache / "session.jsonc"

    @property
    def history(self) -> History:
        return History(self.root, self.system, self.author, os.getuid())

    @property
    def store(self) -> SessionStore:
        return SessionStore(
            self.root,
            system=self.system,
            clock=self.now,
            history=self.history,
            author=self.author,
            uid=os.getuid(),
            still_ours=lambda: self.owned,
        )

    def now(self) -> datetime:
        return START + timedelta(milliseconds=next(self.ticks))

    def put(self, data: bytes) -> str:
        """As another program does: a file of its own, renamed into place. Its etag."""
        temp = self.cache / "other-program.tmp"
        temp.write_bytes(data)
        temp.replace(self.file)
        return etag_of_bytes(data)

    def kept(self) -> dict[bytes, str]:
        """The bytes in the history and why they are there."""
        folder = self.cache / "cueloopd" / "history"
        entries = self.history.entries()
        return {(folder / f"{entry.number:08d}.jsonc").read_bytes(): entry.note.why for entry in entries}

    def quarantined(self) -> list[bytes]:
        return [path.read_bytes() for path in sorted((self.cache / "session-quarantine").glob("*"))]

    def leftovers(self) -> list[str]:
        """Temporary files of ours, anywhere in the cache."""
        return sorted(str(path.relative_to(self.cache)) for path in self.cache.rglob("*") if ".cueloopd-" in path.name)

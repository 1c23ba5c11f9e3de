"""A world for programs: real files in a folder of its own, real runners, real agents as plain child processes of the fake shim."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import subprocess
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import anyio

from cueloop_daemon.core.model import Snapshot
from cueloop_daemon.runners.plugin import PluginFacts
from cueloop_daemon.runs.prompts import PromptFiles
from cueloop_daemon.runs.types import Exited, NotStarted, Order, OwedRow, RunIdentity
from cueloop_daemon.store.atomic import Author
from cueloop_daemon.store.history import History
from cueloop_daemon.store.queue_write import QueueFiles
from cueloop_daemon.store.session_store import SessionStore
from cueloop_daemon.store.session_writer import RunSessionWriter
from cueloop_daemon.store.stop_marker import MARKER
from cueloop_daemon.store.system import System
from cueloop_daemon.store.trees import GitTrees
from cueloop_daemon.workspace.files import FileCache
from cueloop_daemon.workspace.loading import Loader, QueueCache, queue_places
from cueloop_daemon.workspace.view import snapshot_of
from cueloop_protocol.documents.config import Config
from cueloop_protocol.documents.envelope import Event
from cueloop_protocol.identity import process_start_time
from cueloop_protocol.params import RunStartParams
from cueloop_protocol.roots import Caller, Root
from cueloop_protocol.shapes import Question
from runs.fakes import FakeLink, FakeShim, Script


def run_as_child(root: str) -> Any:
    """A fake shim's `play` that really runs the child, to its end."""

    def play(order: Order) -> Script | NotStarted:
        told = b"" if order.stdin is None else Path(order.stdin).read_bytes()
        try:
            done = subprocess.run(
                order.argv, env=dict(order.env), cwd=root, input=told, capture_output=True, timeout=60, check=False
            )
        except OSError as exc:
            return NotStarted("exec", exc.errno or 0)
        code, signal = (done.returncode, None) if done.returncode >= 0 else (None, -done.returncode)
        sizes = len(done.stdout), len(done.stderr)
        return Script(done.stdout, done.stderr, Exited(code, signal, "self", *sizes, 0))

    return play


@dataclass
class Folder:
    """The run's folder, on disk."""

    path: Path
    shim: FakeShim

    def write_prompt(self, number: int, text: str) -> str:
        return self._keep(f"{number}.prompt", text.encode())

    def write_stdin(self, number: int, data: bytes) -> str:
        return self._keep(f"{number}.stdin", data)

    def _keep(self, name: str, data: bytes) -> str:
        file = self.path / name
        if not file.exists():
            file.write_bytes(data)
        return str(file)

    def read(self, number: int, stream: Literal["out", "err"], offset: int, limit: int) -> tuple[int, bytes]:
        script = self.shim.scripts.get(number)
        whole = b"" if not isinstance(script, Script) else script.out if stream == "out" else script.err
        return offset, whole[offset : offset + limit]


@dataclass
class Memory:
    """What the run's record keeps beside the journal; outlives a life."""

    owed: dict[str, OwedRow] = field(default_factory=dict)
    conversations: dict[tuple[object, ...], tuple[str, str]] = field(default_factory=dict)
    etags: tuple[str, ...] = ()
    answers: list[tuple[str, str | None]] = field(default_factory=list)
    asked: list[Question] = field(default_factory=list)
    answered: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    output: list[tuple[str, int, int, int]] = field(default_factory=list)
    """What was told of the children's output: (stream, child, offset behind it, piece of what ends there)."""
    told: list[Event] = field(default_factory=list)
    notified: list[str] = field(default_factory=list)


class TestWorld:
    """One life's world. Implements `runs.types.World`."""

    __test__ = False

    def __init__(
        self,
        root: Root,
        caller: Caller,
        params: RunStartParams,
        env: Mapping[str, str],
        shim: FakeShim,
        memory: Memory,
        *,
        system: System | None = None,
        author: Author | None = None,
        run_id: str = "r-1",
        still_ours: Callable[[], bool] = lambda: True,
    ) -> None:
        self.root = root
        self.caller = caller
        self.memory = memory
        self.shim = shim
        self.run = RunIdentity(run_id, params, caller, env)
        self.link = FakeLink(shim)
        base = Path(root.base, ".cueloop", "cache", "cueloopd", "runs", run_id)
        base.mkdir(parents=True, exist_ok=True)
        self.folder = Folder(base, shim)
        self.trees = GitTrees(root, caller, env, ())
        self._wall = lambda: int(dt.datetime.now(dt.UTC).timestamp() * 1e9)
        self._loader = Loader(root, FileCache(self._wall), QueueCache(self._wall), self._wall)
        config = self._loader.config(caller)
        assert isinstance(config.config, Config)
        self.config = config.config
        queue, done = queue_places(config, root, caller)
        system, author = system or System(), author or Author(os.getpid(), process_start_time(os.getpid()) or "")
        self.files = QueueFiles(queue.io, done.io, system, author, still_ours)
        self.session_store = SessionStore(
            root,
            system=system,
            clock=self.now,
            history=History(root, system, author, os.getuid()),
            author=author,
            uid=os.getuid(),
            still_ours=still_ours,
        )
        self.sessions = RunSessionWriter(self.session_store, system, self.now, memory.etags, self._remember)
        self.prompts = PromptFiles(root, ())
        self.plugins: Mapping[str, PluginFacts] = {}
        self.questions = self
        self.conversations = self
        self.owed = self
        self.notify = self
        self.stop_marker = self
        self.idle_seconds: float | None = 900.0
        self.wall_seconds: float | None = None
        self.question_minutes = 60
        self.shown: list[tuple[str | None, str | None, str]] = []
        self._last: tuple[int, str, int] | None = None
        self._piece = 0

    # what is kept

    def _remember(self, etag: str | None) -> None:
        self.memory.etags = () if etag is None else (*self.memory.etags, etag)[-2:]

    def rows(self) -> tuple[OwedRow, ...]:
        return tuple(self.memory.owed.values())

    async def accept(self, row: OwedRow) -> None:
        self.memory.owed.setdefault(row.task_id, row)

    async def settled(self, task_id: str) -> None:
        self.memory.owed.pop(task_id, None)

    def find(self, *key: object) -> str | None:
        found = self.memory.conversations.get(key)
        return None if found is None or found[1] == "gone" else found[0]

    def keep(self, *args: object) -> None:
        *key, conversation, state = args
        self.memory.conversations[tuple(key)] = (str(conversation), str(state))

    async def ask(self, question: Question) -> tuple[str, str | None]:
        await anyio.lowlevel.checkpoint()
        if question.question_id not in {one.question_id for one in self.memory.asked}:
            self.memory.asked.append(question)
            self.memory.answered[question.question_id] = self.memory.answers.pop(0) if self.memory.answers else ("keep", None)
        return self.memory.answered[question.question_id]

    def send(self, title: str, text: str, *, kind: str) -> None:
        self.memory.notified.append(f"{kind}: {title}")

    def seen(self) -> str | None:
        return "marker" if os.path.lexists(self.root.join(*MARKER)) else None

    def remove(self, identity: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self.root.join(*MARKER))

    def tell(self, number: int, stream: Literal["out", "err"], offset: int, event: Event) -> None:
        self._piece = self._piece + 1 if self._last == (number, stream, offset) else 0
        self._last = number, stream, offset
        position = number, offset, self._piece
        if position > max((one[1:] for one in self.memory.output if one[0] == stream), default=(0, 0, 0)):
            self.memory.output.append((stream, *position))
            self.memory.told.append(event)

    def show(self, *, task_id: str | None, phase: str | None, state: str) -> None:
        self.shown.append((task_id, phase, state))

    # the world

    def now(self) -> dt.datetime:
        return dt.datetime.now(dt.UTC)

    def new_id(self) -> str:
        return str(uuid.uuid4())

    def find_program(self, name: str) -> str | None:
        path = os.path.join(self.root.path, name) if "/" in name and not name.startswith("/") else name
        return shutil.which(path, path=self.run.env.get("PATH"))

    async def version_text(self, argv: tuple[str, ...]) -> str:
        program = self.find_program(argv[0])
        if program is None:
            return ""
        return subprocess.run(
            [program, *argv[1:]], env=dict(self.run.env), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        ).stdout

    async def look(self) -> Snapshot:
        await anyio.lowlevel.checkpoint()
        return snapshot_of(self._loader.load(self.caller), None, None, 1)

    async def sleep_until(self, moment: dt.datetime) -> None:
        await anyio.sleep(0)

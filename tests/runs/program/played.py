"""A world of a run that is played quickly: real files without waiting for the disk, a work tree without git, agents that only print.

`Stage` is what outlives a daemon: files, shim, memory, clock. `Stage.life` is one life of a daemon with it.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio

from cueloop_daemon.core.model import Snapshot
from cueloop_daemon.runners import PluginFacts
from cueloop_daemon.runs.journal import Point, Probe, RunJournal
from cueloop_daemon.runs.program import run_program
from cueloop_daemon.runs.records import Conversation
from cueloop_daemon.runs.state import State
from cueloop_daemon.runs.types import Baseline, Exited, NotStarted, Order, TreeStanding
from cueloop_daemon.store.atomic import Author
from cueloop_daemon.store.system import System
from cueloop_protocol.params import RunStartParams
from cueloop_protocol.roots import caller_from_environment, open_root
from runs.fakes import FakeShim, Killed, MemoryStore, Script
from runs.program.world import Memory, TestWorld

START = dt.datetime(2026, 11, 30, 12, 0, tzinfo=dt.UTC)
STAMP = "2026-11-30T11:00:00.000000000Z"
ENV = {"PATH": "/nowhere", "HOME": "/nowhere"}


class Quick(System):
    """The real system, but for what makes a power cut harmless. Each change of a name is a place to die; a dead daemon does nothing."""

    def __init__(self, point: Probe, failing: Callable[[], int | None]) -> None:
        super().__init__()
        self._point = point
        self._failing = failing
        self.is_dead = False

    def write(self, fd: int, data: memoryview) -> int:
        """As the disk takes it."""
        if self.is_dead:
            raise Killed
        code = self._failing()
        if code is not None:
            raise OSError(code, os.strerror(code))
        return super().write(fd, data)

    def fsync(self, fd: int) -> None:
        """Nothing is cut off here."""

    def fsync_folder(self, path: str) -> None:
        """Nothing is cut off here."""


def _mortal(name: str) -> Callable[..., Any]:
    real = getattr(System, name)

    def call(self: Quick, *args: Any) -> Any:
        if self.is_dead and name != "close":
            raise Killed
        result = real(self, *args)
        if name in ("exchange", "rename_new", "replace", "link", "unlink"):
            self._point(f"system/{name}", "acted")
        return result

    return call


for _name_of_call in ("open", "close", "pread", "fstat", "lstat", "fchmod", "listdir", "mkdir"):
    setattr(Quick, _name_of_call, _mortal(_name_of_call))
for _name_of_call in ("exchange", "rename_new", "replace", "link", "unlink"):
    setattr(Quick, _name_of_call, _mortal(_name_of_call))


@dataclass
class Tree:
    """A work tree with a history, as far as runs use git. Its files are all but `.cueloop/`."""

    root: Path
    commits: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """(message, files)."""
    kept: dict[str, tuple[str, dict[str, str], bool]] = field(default_factory=dict)
    """Task → (session, files, whether it was dirty)."""
    pushed: int = 0

    def files(self) -> dict[str, str]:
        """Path → text."""
        found = {}
        for path in sorted(self.root.rglob("*")):
            name = str(path.relative_to(self.root))
            if path.is_file() and not name.startswith(".cueloop/"):
                found[name] = path.read_text()
        return found

    def put(self, files: Mapping[str, str]) -> None:
        """Make the tree consist of these files."""
        for name in self.files().keys() - files.keys():
            (self.root / name).unlink()
        for name, text in files.items():
            (self.root / name).write_text(text)

    def commit(self, message: str) -> None:
        """Everything as it stands."""
        self.commits.append((message, self.files()))


class Trees:
    """Implements `runs.types.Trees` over a `Tree`."""

    def __init__(self, tree: Tree, *, keeps_nothing: bool) -> None:
        self._tree = tree
        self._keeps_nothing = keeps_nothing

    async def standing(self) -> TreeStanding:
        is_dirty = bool(self._tree.commits) and self._tree.files() != self._tree.commits[-1][1]
        return TreeStanding(is_dirty, await self.head())

    async def now(self) -> str | None:
        await anyio.lowlevel.checkpoint()
        return json.dumps(self._tree.files()) if self._tree.commits else None

    async def head(self) -> str | None:
        await anyio.lowlevel.checkpoint()
        return _name(self._tree.commits) if self._tree.commits else None

    async def changed(self, before: str, after: str) -> tuple[str, ...]:
        await anyio.lowlevel.checkpoint()
        old, new = json.loads(before), json.loads(after)
        return tuple(sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name)))

    async def keep(
        self, task_id: str, session_id: str, *, tree: str | None, head: str | None, dirty: bool, is_new: bool = False
    ) -> Baseline:
        await anyio.lowlevel.checkpoint()
        if self._keeps_nothing:
            return Baseline(None, None, dirty)
        there = self._tree.kept.get(task_id)
        if is_new and there is not None and there[0] == session_id:
            raise AssertionError("a tree was kept for this session, although it was said to be new")
        if there is None or there[0] != session_id:
            self._tree.kept[task_id] = session_id, self._tree.files(), dirty
        return Baseline(task_id, await self.head(), self._tree.kept[task_id][2])

    async def forget(self, task_id: str) -> None:
        await anyio.lowlevel.checkpoint()
        self._tree.kept.pop(task_id, None)

    def revert_argv(self, baseline: Baseline) -> tuple[str, ...]:
        return ("revert", str(baseline.commit))

    def commit_argv(self, task_id: str, title: str, run_id: str) -> tuple[str, ...]:
        return ("commit", f"{task_id}|{run_id}")

    def push_argv(self) -> tuple[str, ...]:
        return ("push",)

    async def has_commit(self, task_id: str, run_id: str, since: str | None) -> bool:
        await anyio.lowlevel.checkpoint()
        return any(message == f"{task_id}|{run_id}" for message, _ in self._tree.commits)


def _name(commits: list[tuple[str, dict[str, str]]]) -> str:
    return hashlib.sha256(json.dumps(commits).encode()).hexdigest()


class Book:
    """Implements `runs.types.Conversations`: what is kept rides with the journal's next commit, and is found at once."""

    def __init__(self, store: MemoryStore, journal: RunJournal) -> None:
        self._store = store
        self._journal = journal
        self._kept: dict[tuple[object, ...], Conversation] = {}

    def find(self, *place: object) -> str | None:
        kept = self._kept.get(place) or known(self._store).get(place)
        return None if kept is None or kept.state == "gone" else kept.body

    def keep(self, task_id: str, session_id: str, iteration: int, phase: int, runner: str, conversation: str, state: str) -> None:
        one = Conversation(task_id, session_id, iteration, phase, runner, conversation, state)
        if self._kept.get(one[:5]) != one:
            self._kept[one[:5]] = one
            self._journal.keep_conversation(one)


def known(store: MemoryStore) -> dict[tuple[object, ...], Conversation]:
    """The conversations on record, by place."""
    return {one[:5]: one for one in store.conversations}


class PlayedWorld(TestWorld):
    """One life's world on a stage."""

    __test__ = False

    def __init__(self, stage: Stage, journal: RunJournal, system: Quick) -> None:
        author = Author(os.getpid(), f"life-{stage.store.lives}")
        super().__init__(
            stage.root,
            stage.caller,
            stage.params,
            ENV,
            stage.shim,
            stage.memory,
            system=system,
            author=author,
            run_id=stage.store.run_id,
            still_ours=lambda: stage.is_ours,
        )
        self.stage = stage
        self.session_store.recover(lambda pid: "the one that lives")
        self.conversations = Book(stage.store, journal)  # type: ignore[assignment]  # both implement runs.types.Conversations
        self.trees = Trees(stage.tree, keeps_nothing=stage.keeps_nothing)  # type: ignore[assignment]  # both implement runs.types.Trees
        self.question_minutes = 60
        self.plugins = stage.plugins

    def now(self) -> dt.datetime:
        return self.stage.clock

    async def look(self) -> Snapshot:
        return replace(await super().look(), settling=self.stage.settling)

    def new_id(self) -> str:
        self.stage.ids += 1
        return f"00000000-0000-4000-8000-{self.stage.ids:012}"

    def find_program(self, name: str) -> str | None:
        return None if name in self.stage.missing else name

    async def version_text(self, argv: tuple[str, ...]) -> str:
        await anyio.lowlevel.checkpoint()
        return self.stage.version

    async def sleep_until(self, moment: dt.datetime) -> None:
        await anyio.lowlevel.checkpoint()
        self.stage.clock = max(self.stage.clock, moment)
        self.stage.slept.append(moment)
        await self.stage.while_sleeping()


class Stage:
    """What outlives daemons. `play` says what a child does; it is asked once for each child that is really started."""

    def __init__(self, folder: Path, params: Mapping[str, Any], play: Callable[[Stage, Order], Script | NotStarted]) -> None:
        self.folder = folder
        self.params = RunStartParams.model_validate({**params, "env": {}})
        self.shim = FakeShim(play=self._play)
        self.memory = Memory()
        self.store = MemoryStore()
        self.tree = Tree(folder)
        self.clock = START
        self.ids = 0
        self.missing: set[str] = set()
        self.version = ""
        self.slept: list[dt.datetime] = []
        self.played: list[str] = []
        self.planning: set[str] = set()
        """The conversations in which an agent was asked for a plan."""
        self.is_cancelled = self.is_stopping = False
        self.is_ours = True
        self.failing: int | None = None
        """The error of every write to a file, while there is one."""
        self.plugins: Mapping[str, PluginFacts] = {}
        self.settling = self.keeps_nothing = False
        """Whether the session file was caught half-written; whether there is no git that could keep a tree."""
        self.journal: RunJournal | None = None
        self.world: PlayedWorld | None = None
        self.how = play
        self._prompts: dict[str, str] = {}

    @property
    def root(self) -> Any:
        return open_root(str(self.folder))

    @property
    def caller(self) -> Any:
        return caller_from_environment(ENV, ENV["HOME"])

    async def while_sleeping(self) -> None:
        """What happens in the world while a run waits; a story may say more."""

    def write(self, name: str, text: str) -> None:
        """A file of the repository."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def text(self, name: str) -> str:
        """A file's content; empty if there is none."""
        path = self.folder / name
        return path.read_text() if path.exists() else ""

    def said(self, order: Order) -> str:
        """What the agent was told on its standard input."""
        return Path(order.stdin).read_text() if order.stdin else ""

    def reboot(self, params: Mapping[str, Any]) -> None:
        """The machine went down and came back; the run is over, and another is started with these params."""
        self.store = MemoryStore(run_id=f"r-{self.store.run_id}", conversations=self.store.conversations)
        self.shim = FakeShim(play=self._play)
        self.params = RunStartParams.model_validate({**params, "env": {}})

    def cancel(self) -> None:
        """The run is to be cancelled, in this life and all later ones."""
        self.is_cancelled = True
        if self.journal is not None:
            self.journal.cancel()

    async def life(self, probe: Probe | None = None) -> State:
        """One life of a daemon, to the end of the run or until it is killed: until `probe` raises Killed at a point that it is told."""
        system: Quick | None = None

        def point(key: str, at: Point) -> None:
            if probe is not None:
                try:
                    probe(key, at)
                except Killed:
                    if system is not None:
                        system.is_dead = True
                    raise

        self.journal = self.store.journal(probe=point, cancelled=self.is_cancelled, stop_wanted=self.is_stopping)
        system = Quick(point, lambda: self.failing)
        self.world = world = PlayedWorld(self, self.journal, system)
        return await run_program(self.journal.state, self.journal, world)  # type: ignore[arg-type]  # a World

    def events(self) -> list[dict[str, Any]]:
        """Everything that the run has said, in order, but for output."""
        return [json.loads(one.params)["event"] for one in self.store.out if one.method == "event"]

    def tasks(self, name: str) -> dict[str, str]:
        """Task → status in `queue` or `done`."""
        text = self.text(f".cueloop/{name}.jsonc")
        return {task["id"]: task.get("status", "todo") for task in json.loads(text)["tasks"]} if text else {}

    def session(self) -> dict[str, Any] | None:
        """The session file, if there is one."""
        text = self.text(".cueloop/cache/session.jsonc")
        return json.loads(text) if text else None

    def remains(self) -> dict[str, object]:
        """Everything outside of the daemon that a later life, or a person, can see."""
        ours = sorted(path for path in (self.folder / ".cueloop").rglob("*") if path.is_file())
        return {
            "files": {str(path.relative_to(self.folder)): path.read_text() for path in ours},
            "queue": self.text(".cueloop/queue.jsonc"),
            "done": self.text(".cueloop/done.jsonc"),
            "session": self.text(".cueloop/cache/session.jsonc"),
            "marker": (self.folder / ".cueloop/cache/stop_requested").exists(),
            "tree": self.tree.files(),
            "commits": self.tree.commits,
            "kept": self.tree.kept,
            "pushed": self.tree.pushed,
            "owed": self.memory.owed,
            "conversations": known(self.store),
            "etags": self.memory.etags,
            "asked": self.memory.asked,
            "answers": self.memory.answers,
            "notified": self.memory.notified,
            "output": self.memory.output,
            "lock": self.shim.lock,
            "children": sorted(self.shim.orders),
            "ended": self.shim.ended,
            "clock": self.clock,
            "cancelled": self.is_cancelled,
            "store": (self.store.state, self.store.records, self.store.told, self.store.out, self.store.over),
        }

    def _play(self, order: Order) -> Script | NotStarted:
        self.played.append(f"{order.kind} {os.path.basename(order.argv[0])}")
        if order.kind == "git":
            return self.git(order)
        return self.how(self, order)

    def git(self, order: Order) -> Script:
        """What a program of git's does; a test may have it do something else."""
        word, *rest = order.argv
        match word:
            case "commit":
                self.tree.commit(rest[0])
            case "push":
                self.tree.pushed += 1
            case "revert":
                self.tree.put(self.tree.kept[rest[0]][1])
                return Script(b"refs/cueloop/reverted/1 (abc)\n")
        return Script()


def ends(code: int, out: bytes = b"", err: bytes = b"") -> Script:
    """A program that ends with this code."""
    return Script(out, err, Exited(code, None, "self", 0, 0, 0))


def task(name: str, **more: object) -> dict[str, object]:
    """A task of the queue."""
    return {"id": name, "title": f"Task {name}", "created_at": STAMP, "updated_at": STAMP, **more}


def queue(*tasks: dict[str, object]) -> str:
    """A queue or done file."""
    return json.dumps({"version": 1, "tasks": list(tasks)})


def config(**agent: object) -> str:
    """A configuration: claude, and what else is given of `agent`; `loop` of the loop."""
    loop = agent.pop("loop", None)
    plain = {
        "runner": "claude",
        "model": "sonnet",
        "phases": 1,
        "phase_overrides": {f"phase{n}": {"model": "sonnet"} for n in (1, 2, 3)},
    }
    return json.dumps({"agent": {**plain, **agent}, **({"loop": loop} if loop else {})})


def session(name: str = "RQ-0001", **more: object) -> str:
    """A session as another run left it, five minutes ago."""
    at = (START - dt.timedelta(minutes=5)).isoformat().replace("+00:00", "Z")
    plain = {
        "version": 1,
        "session_id": "550e8400-e29b-41d4-a716-446655440000",
        "task_id": name,
        "run_started_at": at,
        "last_updated_at": at,
        "iterations_planned": 1,
        "iterations_completed": 0,
        "current_phase": 2,
        "runner": "claude",
        "model": "sonnet",
        "tasks_completed_in_loop": 0,
        "max_tasks": 0,
    }
    return json.dumps({**plain, **more})

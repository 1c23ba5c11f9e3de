"""The seams of the run engine: what its parts promise each other. Values are frozen; behaviour is in Protocols.

The program (`runs/program`) does everything through a `World` and a `Journal`, so that tests run it against fakes and count every step.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

from pydantic import TypeAdapter

from cueloop_daemon.core.model import Snapshot, TaskRow
from cueloop_protocol.documents.config import Config
from cueloop_protocol.documents.envelope import Event
from cueloop_protocol.documents.queue import Task
from cueloop_protocol.documents.session import Session
from cueloop_protocol.params import RunStartParams
from cueloop_protocol.roots import Caller, Root
from cueloop_protocol.shapes import Question
from cueloop_protocol.values import dataclass

if TYPE_CHECKING:  # every runner comes with it, and only a run needs one
    from cueloop_daemon.runners.plugin import PluginFacts

T = TypeVar("T")
I = TypeVar("I")  # noqa: E741  (an intent)

Cause = Literal["self", "idle", "wall", "signal", "cancel", "leave", "folder"]
"""Why a child ended: by itself, a limit, a signal order, a cancel, 30 s after its last word, or because its run's folder went."""


# --- the journal -----------------------------------------------------------------------------------------------------------------


class RunCancelled(Exception):
    """The run is being cancelled. Raised by `Journal.wait` alone, and only beyond what is on record."""


class Diverged(Exception):
    """The program asks for another step than the one on record: another version wrote it. Nothing was done."""


class Journal(Protocol):
    """What a program does goes through here, in the same order in each life of the daemon.

    A key is unique in its scope. What is on record is answered from there and not done again. Rules for programs: no effect outside
    of these calls, none in `finally` or `except`, no clock, no randomness but through `note`.
    """

    async def note(self, key: str, make: Callable[[], Awaitable[T]], codec: TypeAdapter[T]) -> T:
        """A value without an effect (the time, a file's content, a decision's facts); kept, so that each life sees the same."""
        ...

    async def converge(self, key: str, act: Callable[[bool], Awaitable[T]], codec: TypeAdapter[T]) -> T:
        """An effect that may be repeated: "make it so". `act(again)`: `again` where an earlier life may have done it already."""
        ...

    async def step(
        self, key: str, intent: I, act: Callable[[I, bool], Awaitable[T]], intent_codec: TypeAdapter[I], codec: TypeAdapter[T]
    ) -> T:
        """An effect that must not happen twice: the intent is on the medium before `act(intent, again)` begins."""
        ...

    async def emit(self, key: str, event: Event) -> None:
        """Say an event of this run, once in all lives."""
        ...

    def say(self, event: Event) -> None:
        """Say an event from beside the program (heartbeat, limits). May be lost in a crash, is never repeated."""
        ...

    async def heed(self) -> None:
        """Raise RunCancelled if the run is being cancelled and nothing is on record beyond. Commits nothing."""
        ...

    async def wait(self, wanted: Awaitable[T]) -> T:
        """Wait for something that takes long. Raises RunCancelled as soon as the run is cancelled."""
        ...

    async def checkpoint(self, state: object) -> None:
        """The scope is over: `state` is where a later life begins, and the scope's steps are forgotten, in one transaction."""
        ...

    def order_number(self) -> int:
        """A fresh number for an order to the shim, equal in each life for the same step. Only within an intent."""
        ...

    @property
    def cancelled(self) -> bool:
        """Whether the run is being cancelled."""
        ...

    @property
    def stop_wanted(self) -> bool:
        """Whether the run was asked to stop after its current task."""
        ...


# --- the shim ----------------------------------------------------------------------------------------------------------------------


class ShimGone(Exception):
    """The run's shim is no more; the run cannot go on."""


@dataclass(frozen=True, slots=True)
class LockMade:
    """The queue lock is ours; `owner` are the bytes of its owner file."""

    device: int
    inode: int
    owner: bytes


@dataclass(frozen=True, slots=True)
class LockHeld:
    """Somebody else has the queue lock. What the owner file says; None where it says nothing."""

    pid: int | None
    label: str | None
    started_at: str | None
    live: bool


@dataclass(frozen=True, slots=True)
class Order:
    """One child to start. `argv[0]` is absolute. `stdin` is a file for the child to read, None is /dev/null. Seconds; None: no limit."""

    number: int
    token: str
    kind: Literal["agent", "ci", "git"]
    argv: tuple[str, ...]
    env: Mapping[str, str]
    stdin: str | None
    idle: float | None
    wall: float | None
    grace: float


@dataclass(frozen=True, slots=True)
class Started:
    """The child runs."""

    pid: int
    start_time: str


@dataclass(frozen=True, slots=True)
class NotStarted:
    """The child could not be started; `stage` is cwd, open or exec."""

    stage: str
    errno: int


@dataclass(frozen=True, slots=True)
class Grown:
    """There is more output: logical sizes in bytes."""

    out: int
    err: int


@dataclass(frozen=True, slots=True)
class Exited:
    """The child and its group are gone; output is complete. `left`: names of what could not be ended."""

    code: int | None
    signal: int | None
    cause: Cause
    out: int
    err: int
    dropped: int
    left: tuple[str, ...] = ()


class Link(Protocol):
    """The daemon's end of the connection to the run's shim. Every call may raise ShimGone."""

    async def lock(self, number: int, label: str, command: str, started_at: str) -> LockMade | LockHeld:
        """Take the queue lock, clearing one whose holder is dead. Having it already is LockMade."""
        ...

    async def unlock(self, number: int) -> None:
        """Let the queue lock go, if it is ours."""
        ...

    async def start(self, order: Order) -> Started | NotStarted:
        """Start a child. The same number again tells what became of it, and never starts a second one."""
        ...

    def follow(self, number: int) -> AsyncIterator[Grown | Exited]:
        """How the output grows and how the child ends; begins with the state that there is. Ends after Exited."""
        ...

    async def signal(self, number: int, grace: float) -> None:
        """INT, TERM, KILL to the whole group; returns when it is empty. One that was not started yet never will be."""
        ...

    async def end_child(self, grace: float) -> None:
        """End whatever child there is, like `signal`; returns when there is none."""
        ...

    async def limits(self, number: int, *, leave_within: float) -> None:
        """The child has said its last word: it must be gone within these seconds."""
        ...

    async def acknowledge(self, number: int) -> None:
        """What became of the orders up to this one is on record here."""
        ...


class RunFolder(Protocol):
    """`runs/<id>/`: what is read and written there by the daemon."""

    def write_prompt(self, number: int, text: str) -> str:
        """Keep a prompt as a file, 0600; its path for a child's standard input. One that exists stays as it is."""
        ...

    def write_stdin(self, number: int, data: bytes) -> str:
        """Keep what the child reads on its standard input, 0600; its path. One that exists stays as it is."""
        ...

    def read(self, number: int, stream: Literal["out", "err"], offset: int, limit: int) -> tuple[int, bytes]:
        """Output from `offset` on: (where it really begins, bytes). A middle that was dropped is jumped over. Blocking."""
        ...


# --- files ---------------------------------------------------------------------------------------------------------------------------


class TaskConflict(Exception):
    """Somebody else kept changing queue or done file; nothing of theirs was lost and ours was not made.

    `str()` is one sentence for people, `code` the error document's.
    """

    code = "task_mutation_conflict"


class TasksUnreadable(TaskConflict):
    """What stands there is no queue or done file any more, so it is not changed."""

    code = "queue_corrupted"


class TaskFiles(Protocol):
    """Queue and done file as the run changes them: one change at a time, made on top of what others wrote. Blocking; NotWritable."""

    def begin(self, task_id: str, now: str) -> Literal["changed", "already", "missing"]:
        """`doing`, with `started_at` where it had none. `missing`: it is not in the queue."""
        ...

    def add_done(self, task_id: str, now: str) -> Literal["changed", "already", "missing"]:
        """The task, made `done`, at the end of the done file, unless its id is there. `missing`: it is in neither file."""
        ...

    def remove_from_queue(self, task_id: str) -> Literal["changed", "already"]:
        """Take the task out of the queue."""
        ...

    def archive_settled(self, now: str) -> Literal["changed", "already"]:
        """Move every task that is done or rejected from the queue to the done file, as it stands; the done file first.

        One that does not say when it was completed was completed `now`.
        """
        ...

    def settled(self) -> tuple[str, ...]:
        """The ids of the tasks that `archive_settled` would move now."""
        ...

    def completed_twice(self) -> tuple[str, ...]:
        """The ids of tasks whose completion was broken off between done file and queue: they stand in both, as the same task."""
        ...

    def status(self, task_id: str) -> tuple[str | None, str | None]:
        """(status in the queue, status in the done file); None where it is not there."""
        ...

    def task(self, task_id: str) -> Task | None:
        """The whole task from the queue."""
        ...


@dataclass(frozen=True, slots=True)
class SessionWrite:
    """What became of a write of the session. `foreign` are history paths of what somebody else had written meanwhile."""

    etag: str
    foreign: tuple[str, ...] = ()
    deleted: bool = False
    """Somebody had removed the file; it was written again."""
    stays: bool = False
    """The file was somebody else's by then, and is where it was."""


class SessionWriter(Protocol):
    """The session file while a run is active: ours stands, what others wrote is kept. One lane; awaits its own thread."""

    async def begin(self, session: Session, action: str, *, seen: str | None, reason: str) -> SessionWrite:
        """The new session, after `action` (a FileAction's name) was done to the old file, which the decision saw as `seen`.

        `seen` is an etag, None: there was no file. `reason` is the decision's; the history notes it where the old file goes there.
        """
        ...

    async def save(self, session: Session) -> SessionWrite:
        """The session as it stands now; `last_updated_at` is set here."""
        ...

    async def clear(self, why: str, etag: str | None = None) -> SessionWrite | None:
        """Move it to the history; None if there was none. A foreign one stays and is told.

        `etag` is what it is expected to be, where another run wrote it.
        """
        ...


@dataclass(frozen=True, slots=True)
class Baseline:
    """The tree as a task found it: a commit object that a ref of ours holds. None of it where there is no git to keep it in."""

    commit: str | None
    head: str | None
    was_dirty: bool


@dataclass(frozen=True, slots=True)
class TreeStanding:
    """The work tree against its commit. Without git it is never dirty; `head` is None without a commit."""

    is_dirty: bool
    head: str | None


class Trees(Protocol):
    """Git, as far as runs need it. Reading only; what changes the repository is an order for the shim."""

    async def standing(self) -> TreeStanding:
        """Whether there are changes outside `.cueloop/`, queue and done file, and the commit that is checked out."""
        ...

    async def now(self) -> str | None:
        """The id of a tree object of the work tree as it stands, without `.cueloop/`, queue and done file; None without git."""
        ...

    async def changed(self, before: str, after: str) -> tuple[str, ...]:
        """The paths that differ between two tree objects, sorted."""
        ...

    async def keep(
        self, task_id: str, session_id: str, *, tree: str | None, head: str | None, dirty: bool, is_new: bool = False
    ) -> Baseline:
        """Keep the tree as it stands for a revert; what was kept for this very session before stays.

        `tree` is a tree object of it, None: it is what the commit `head` has. `dirty`: it has changes that no run of ours made.
        `is_new`: nothing can have been kept for this session yet, so nobody has to look.
        """
        ...

    async def forget(self, task_id: str) -> None:
        """The task is done: its tree is kept no longer."""
        ...

    async def head(self) -> str | None:
        """The commit that is checked out."""
        ...

    def revert_argv(self, baseline: Baseline) -> tuple[str, ...]:
        """The command that returns the tree to the baseline, never further, keeping what it undoes as a git object."""
        ...

    def commit_argv(self, task_id: str, title: str, run_id: str) -> tuple[str, ...]:
        """The command that commits all changes with trailers that name task and run."""
        ...

    def push_argv(self) -> tuple[str, ...]:
        """The command that pushes the current branch."""
        ...

    async def has_commit(self, task_id: str, run_id: str, since: str | None) -> bool:
        """Whether a commit with these trailers exists after `since`."""
        ...


# --- the world -------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """Which run this is, and what was asked for. `env` are the variables of the agents."""

    run_id: str
    params: RunStartParams
    caller: Caller
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a task is done with: its row, and the whole task."""

    row: TaskRow
    task: Task


class Questions(Protocol):
    """Questions in the middle of a run; stored before they are shown, answered once."""

    async def ask(self, question: Question) -> tuple[str, str | None]:
        """Store, announce, wait for the answer, its time-out or the run's end: (choice, text)."""
        ...


class Conversations(Protocol):
    """The agents' own sessions, kept per task, session, iteration, phase and runner."""

    def find(self, task_id: str, session_id: str, iteration: int, phase: int, runner: str) -> str | None:
        """The conversation to continue as JSON of `runners.Conversation`; None if there is none that is good."""
        ...

    def keep(self, task_id: str, session_id: str, iteration: int, phase: int, runner: str, conversation: str, state: str) -> None:
        """Remember one: state is `chosen`, `reported` or `gone`."""
        ...


class Notify(Protocol):
    """Desktop notifications; never fails, may be silent."""

    def send(self, title: str, text: str, *, kind: Literal["complete", "fail", "loop"]) -> None: ...


class PromptError(Exception):
    """A prompt cannot be made: an override or an instruction file is bad. `str()` names file and field."""


class Prompts(Protocol):
    """The texts for agents: ours, or the repository's own in `.cueloop/prompts/`. Blocking."""

    def make(self, name: str, fields: Mapping[str, str]) -> str:
        """One prompt. Names: `single plan implement review ci_failed plan_changed plan_empty interrupted`. Raises PromptError.

        Fields always there: `task_id title task` (the task as printed JSON) `plan_path phase phases iteration iterations`; for
        `ci_failed` also `command exit_code output`, for `plan_changed` `files`, for `interrupted` `reason`.
        """
        ...


@dataclass(frozen=True, slots=True)
class OwedRow:
    """What is still to be done for a task whose work was accepted. `left`: what the agent made of the task itself."""

    task_id: str
    title: str
    run_id: str
    accepted_at: str
    left: Literal["doing", "done", "rejected", "archived"]
    session_etag: str | None
    head: str | None
    publish: Literal["off", "commit", "commit_and_push"]
    tree: str | None = None
    """The tree as it was accepted, where it is to be published."""


class Owed(Protocol):
    """The rows of work that was accepted and is not settled; on the medium when a call returns."""

    def rows(self) -> tuple[OwedRow, ...]:
        """All of them, oldest first."""
        ...

    async def accept(self, row: OwedRow) -> None:
        """Add a row, or keep the one that is there."""
        ...

    async def settled(self, task_id: str) -> None:
        """Everything for this task is done."""
        ...


class StopMarker(Protocol):
    """`.cueloop/cache/stop_requested`: any tool's wish that the loop end. Blocking."""

    def seen(self) -> str | None:
        """What identifies the marker that is there (device, inode, ctime); None without one."""
        ...

    def remove(self, identity: str) -> None:
        """Remove that very marker, if it is still there."""
        ...


class World(Protocol):
    """Everything that a program can reach."""

    @property
    def run(self) -> RunIdentity: ...
    @property
    def link(self) -> Link: ...
    @property
    def folder(self) -> RunFolder: ...
    @property
    def files(self) -> TaskFiles: ...
    @property
    def sessions(self) -> SessionWriter: ...
    @property
    def trees(self) -> Trees: ...
    @property
    def questions(self) -> Questions: ...
    @property
    def conversations(self) -> Conversations: ...
    @property
    def notify(self) -> Notify: ...
    @property
    def prompts(self) -> Prompts: ...
    @property
    def owed(self) -> Owed: ...
    @property
    def stop_marker(self) -> StopMarker: ...
    @property
    def config(self) -> Config:
        """As it was when the run started, the profile applied."""
        ...

    @property
    def plugins(self) -> Mapping[str, PluginFacts]: ...
    @property
    def root(self) -> Root: ...

    @property
    def idle_seconds(self) -> float | None:
        """How long an agent may say nothing; None: for ever."""
        ...

    @property
    def wall_seconds(self) -> float | None:
        """How long an invocation may take; None: for ever."""
        ...

    @property
    def question_minutes(self) -> int:
        """How long a question stands."""
        ...

    def now(self) -> datetime:
        """The wall clock; only within `note`, `act` or beside the program."""
        ...

    def new_id(self) -> str:
        """A random UUID; only within `note`."""
        ...

    def tell(self, number: int, stream: Literal["out", "err"], offset: int, event: Event) -> None:
        """Say a piece of a child's output that ends at `offset`; what an earlier life told of it is not told again."""
        ...

    def show(self, *, task_id: str | None, phase: str | None, state: str) -> None:
        """What `active_run` says from now on; display only."""
        ...

    def find_program(self, name: str) -> str | None:
        """The absolute path of a program on the caller's PATH; None if there is none that can be executed."""
        ...

    async def version_text(self, argv: tuple[str, ...]) -> str:
        """What a program says of its version: its output, standard input closed, a few seconds at most; empty if it says nothing."""
        ...

    async def look(self) -> Snapshot:
        """The repository as it stands now, for this run's caller."""
        ...

    async def sleep_until(self, moment: datetime) -> None:
        """Wait for a moment of the wall clock."""
        ...

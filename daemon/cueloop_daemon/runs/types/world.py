"""The world of a run: everything that its program can reach."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol

from cueloop_daemon.core.model import Snapshot
from cueloop_daemon.runs.types.files import SessionWriter, TaskFiles, Trees
from cueloop_daemon.runs.types.shim import Link, RunFolder, Stream
from cueloop_protocol.documents.config import Config
from cueloop_protocol.documents.envelope import Event
from cueloop_protocol.params import RunStartParams
from cueloop_protocol.roots import Caller, Root
from cueloop_protocol.shapes import Question
from cueloop_protocol.values import dataclass

if TYPE_CHECKING:  # every runner comes with it, and only a run needs one
    from cueloop_daemon.runners.plugin import PluginFacts


NoticeKind = Literal["complete", "fail", "loop"]
"""What a desktop notification is about: a task that is done, one that failed, a loop."""


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """Which run this is, and what was asked for. `env` are the variables of the agents."""

    run_id: str
    params: RunStartParams
    caller: Caller
    env: Mapping[str, str]


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

    def send(self, title: str, text: str, *, kind: NoticeKind) -> None: ...


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

    def tell(self, number: int, stream: Stream, offset: int, event: Event) -> None:
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

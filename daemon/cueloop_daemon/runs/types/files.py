"""The files that a run changes: queue and done file, the session, the work tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from cueloop_protocol.documents.queue import Task
from cueloop_protocol.documents.session import Session
from cueloop_protocol.values import dataclass

if TYPE_CHECKING:  # every runner comes with it, and only a run needs one
    pass


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

"""The state of a run between two scopes of its program: a value, stored at each checkpoint, from which any later life goes on."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter

from cueloop_protocol.documents.blocking import BlockingState
from cueloop_protocol.documents.decision import Decision
from cueloop_protocol.documents.error import ErrorDocument
from cueloop_protocol.documents.session import Session
from cueloop_protocol.documents.summary import Outcome

ScopeName = Literal["open", "begin", "phase", "fail", "finish", "between", "close", "over"]
"""`over` is no scope: the program has ended."""


class Value(BaseModel):
    """Frozen, strict about what it does not know: a state of another version is no state."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class TaskState(Value):
    """The task under way. `iteration` counts from 1; `phase` is 1 plan, 2 implement (also of a single-phase run), 3 review."""

    task_id: str
    title: str
    phases: int
    """How many phases the run has: 1, 2 or 3."""
    iterations: int
    """How many iterations there are to be; the session's own count ends at 255."""
    iteration: int
    phase: int
    session: Session
    """As it was written last; `last_updated_at` is set by each write."""
    session_etag: str | None = None
    """Of the file as it was written last between phases."""
    is_resumed: bool = False
    """Taken up from a session; its first phase looks whether its inputs are still there."""
    is_worked: bool = False
    """Taken up from a session whose iterations were all completed: only the gate, and what follows it, is to come."""
    base_commit: str | None = None
    """The commit that keeps the tree as the task found it."""
    base_head: str | None = None
    base_dirty: bool = False
    message: str | None = None
    """What is to be said to the agent in place of the phase's prompt: an answer to a question."""
    seconds: int | None = None
    """Unix time of the phase's first invocation, of which ids of our own are made; None before it."""
    last_seconds: int = 0
    """Of the phase before; no two phases have the same, so that no id is made twice."""
    fresh_starts: int = 0
    """How many conversations were begun in this phase of this iteration."""


class FailState(Value):
    """Why the task under way cannot go on, on its way to a question, a revert and the end of the run."""

    kind: Literal["agent", "gate", "plan", "interrupted"]
    """`interrupted`: nothing was judged to be wrong with the work, so it is kept without a question."""
    reason: str
    error: ErrorDocument
    exit_code: int | None = None
    """Of the gate, where it has one."""
    pattern: str | None = None


class Ending(Value):
    """How the run will end: the summary's fields, and the error beside it where there is one."""

    outcome: Outcome
    exit_code: int
    task_id: str | None = None
    blocking: BlockingState | None = None
    error: ErrorDocument | None = None


class State(Value):
    """Everything that a run carries from scope to scope."""

    version: Literal[1] = 1
    next: ScopeName = "open"
    number: int = 0
    """Tasks begun in this run; part of the keys of steps and events."""
    tasks_done: int = 0
    """The loop-wide count, as the session carries it."""
    ran: int = 0
    """Tasks completed in this run."""
    max_tasks: int = 0
    """0: no limit."""
    include_draft: bool = False
    decision: Decision | None = None
    """The one taken before the lock; the one under the lock is checked against it."""
    measure: str | None = None
    """The tree, as the last finished task of this loop left it, that counts as clean."""
    wait_until: str | None = None
    """The end of a wait for work, RFC 3339; None while none was begun."""
    wait_kind: str | None = None
    """Which blocking reason was said last to be waited for."""
    told: Decision | None = None
    """The decision that was said last, so that it is not said again while the run waits."""
    task: TaskState | None = None
    fail: FailState | None = None
    ending: Ending | None = None


STATE: TypeAdapter[State] = TypeAdapter(State)
"""Reads and writes a state as JSON."""

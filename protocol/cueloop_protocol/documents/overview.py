"""`machine workspace overview`, version 1: queue and configuration in one snapshot (contract section 7)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from cueloop_protocol.base import Exactly, Items, Maybe, Wire
from cueloop_protocol.documents.blocking import BlockingState, Count
from cueloop_protocol.documents.queue import QueueDocument, TaskKind, TaskStatus
from cueloop_protocol.documents.resolve import DocumentPaths, ResolveDocument


class NotComplete(Wire):
    """A dependency that exists and is neither done nor rejected."""

    kind: Literal["not_complete"] = "not_complete"
    id: str
    status: TaskStatus


class Missing(Wire):
    """A dependency that exists neither in the queue nor in the done file."""

    kind: Literal["missing"] = "missing"
    id: str


class StatusNotRunnable(Wire):
    """The task is over."""

    kind: Literal["status_not_runnable"] = "status_not_runnable"
    status: TaskStatus


class DraftExcluded(Wire):
    """The task is a draft, and drafts do not count here."""

    kind: Literal["draft_excluded"] = "draft_excluded"


class NonExecutableKind(Wire):
    """The task is a group."""

    kind: Literal["non_executable_kind"] = "non_executable_kind"
    task_kind: TaskKind


class UnmetDependencies(Wire):
    """The task waits for others."""

    kind: Literal["unmet_dependencies"] = "unmet_dependencies"
    dependencies: Items[Annotated[NotComplete | Missing, Field(discriminator="kind")]]


class ScheduledStartInFuture(Wire):
    """The task's time has not come; `seconds_until_runnable` are whole and counted from `now`."""

    kind: Literal["scheduled_start_in_future"] = "scheduled_start_in_future"
    scheduled_start: str
    now: str
    seconds_until_runnable: int


NotRunnableReason = Annotated[
    StatusNotRunnable | DraftExcluded | NonExecutableKind | UnmetDependencies | ScheduledStartInFuture,
    Field(discriminator="kind"),
]


class TaskRunnability(Wire):
    """Whether a task could be run now, and everything that keeps it from it."""

    id: str
    kind: TaskKind
    status: TaskStatus
    runnable: bool
    reasons: Items[NotRunnableReason]


class Selection(Wire):
    """What a run would take up, and by which rule."""

    include_draft: bool
    prefer_doing: bool
    selected_task_id: str | None
    selected_task_status: TaskStatus | None


class RunnabilitySummary(Wire):
    """Counts over the work that waits (`todo`); `blocking` says why nothing would be run, and is absent if something would."""

    total_active: Count
    candidates_total: Count
    runnable_candidates: Count
    blocked_by_dependencies: Count
    blocked_by_schedule: Count
    blocked_by_status_or_flags: Count
    blocking: Maybe[BlockingState] = None


class Runnability(Wire):
    """The runnability report, version 2. For a queue that is not valid it lists no task and says why in `summary.blocking`."""

    version: Exactly[Literal[2]] = 2
    now: str
    selection: Selection
    summary: RunnabilitySummary
    tasks: Items[TaskRunnability]


class QueueOverview(Wire):
    """Both files as they are printed, and what can be run. `next_runnable_task_id` is the first runnable `todo`."""

    version: Exactly[Literal[1]] = 1
    paths: DocumentPaths
    active: QueueDocument
    done: QueueDocument
    next_runnable_task_id: Maybe[str] = None
    runnability: Runnability


class OverviewDocument(Wire):
    """The whole document."""

    version: Exactly[Literal[1]] = 1
    queue: QueueOverview
    config: ResolveDocument

"""The blocking state (contract section 7): why nothing is being done, in words that the app knows. The kinds are closed."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from cueloop_protocol.base import Maybe, Wire

BlockingStatus = Literal["waiting", "blocked", "stalled"]
Count = Annotated[int, Field(ge=0)]


class Idle(Wire):
    """No candidate at all."""

    kind: Literal["idle"] = "idle"
    include_draft: bool


class DependencyBlocked(Wire):
    """Every candidate waits for other tasks."""

    kind: Literal["dependency_blocked"] = "dependency_blocked"
    blocked_tasks: Count


class ScheduleBlocked(Wire):
    """Every candidate waits for its time; `next_runnable_at` is the earliest one, as the queue has it."""

    kind: Literal["schedule_blocked"] = "schedule_blocked"
    blocked_tasks: Count
    next_runnable_at: Maybe[str] = None
    seconds_until_next_runnable: Maybe[int] = None


class MixedQueue(Wire):
    """Candidates wait for tasks and for their time."""

    kind: Literal["mixed_queue"] = "mixed_queue"
    dependency_blocked: Count
    schedule_blocked: Count
    status_filtered: Count


class LockBlocked(Wire):
    """Somebody holds the queue lock."""

    kind: Literal["lock_blocked"] = "lock_blocked"
    lock_path: Maybe[str] = None
    owner: Maybe[str] = None
    owner_pid: Maybe[int] = None


class CiBlocked(Wire):
    """The CI gate failed to the end."""

    kind: Literal["ci_blocked"] = "ci_blocked"
    exit_code: Maybe[int] = None
    pattern: Maybe[str] = None


class RunnerRecovery(Wire):
    """A session waits for a person; scope and reason are those of the decision."""

    kind: Literal["runner_recovery"] = "runner_recovery"
    scope: str
    reason: str
    task_id: Maybe[str] = None


class OperatorRecovery(Wire):
    """Files wait for a person; `suggested_command` is what to try first."""

    kind: Literal["operator_recovery"] = "operator_recovery"
    scope: str
    reason: str
    suggested_command: Maybe[str] = None


BlockingReason = Annotated[
    Idle | DependencyBlocked | ScheduleBlocked | MixedQueue | LockBlocked | CiBlocked | RunnerRecovery | OperatorRecovery,
    Field(discriminator="kind"),
]


class BlockingState(Wire):
    """`message` is one line for people, `detail` what stands behind it, `observed_at` (RFC 3339) when it was found so."""

    status: BlockingStatus
    reason: BlockingReason
    task_id: Maybe[str] = None
    message: str
    detail: str
    observed_at: Maybe[str] = None

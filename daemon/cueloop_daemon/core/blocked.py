"""The blocking states that the queue alone explains, in our own words (contract section 7). `observed_at` is RFC 3339."""

from __future__ import annotations

from typing import Final

from cueloop_protocol.documents.blocking import (
    BlockingReason,
    BlockingState,
    BlockingStatus,
    DependencyBlocked,
    Idle,
    MixedQueue,
    OperatorRecovery,
    ScheduleBlocked,
)

REPAIR: Final = "cueloop machine queue repair --dry-run"


def idle(observed_at: str, *, include_draft: bool = False) -> BlockingState:
    wanted = "todo or draft" if include_draft else "todo"
    reason = Idle(include_draft=include_draft)
    return _state(
        "waiting",
        reason,
        f"Idle: the queue has no {wanted} task.",
        "Work that is added takes another run, or a loop that waits (--wait-when-empty).",
        observed_at,
    )


def all_drafts(first: str, observed_at: str) -> BlockingState:
    detail = f"Make a task ready first, for example: cueloop task ready {first}"
    state = _state("waiting", Idle(include_draft=False), "Idle: all tasks of the queue are drafts.", detail, observed_at)
    return state.model_copy(update={"task_id": first})


def by_dependencies(count: int, observed_at: str) -> BlockingState:
    detail = f"{count} task(s) wait for others to be done or rejected."
    reason = DependencyBlocked(blocked_tasks=count)
    return _state("blocked", reason, "Blocked: every task that could be run waits for another one.", detail, observed_at)


def by_schedule(count: int, next_at: str, seconds: int, observed_at: str) -> BlockingState:
    detail = f"{count} task(s) are scheduled for later; the next may run at {next_at}."
    reason = ScheduleBlocked(blocked_tasks=count, next_runnable_at=next_at, seconds_until_next_runnable=seconds)
    return _state("waiting", reason, "Waiting: every task that could be run is scheduled for later.", detail, observed_at)


def mixed(by_dependencies: int, by_schedule: int, observed_at: str) -> BlockingState:
    reason = MixedQueue(dependency_blocked=by_dependencies, schedule_blocked=by_schedule, status_filtered=0)
    detail = f"{by_dependencies} task(s) wait for others, {by_schedule} are scheduled for later."
    return _state("blocked", reason, "Blocked: tasks wait for other tasks and for their time.", detail, observed_at)


def not_valid(problem: str, observed_at: str) -> BlockingState:
    reason = OperatorRecovery(scope="queue_validate", reason="validation_failed", suggested_command=REPAIR)
    return _state("stalled", reason, "Stalled: the queue is not valid.", problem, observed_at)


def _state(status: BlockingStatus, reason: BlockingReason, message: str, detail: str, observed_at: str) -> BlockingState:
    return BlockingState(status=status, reason=reason, message=message, detail=detail, observed_at=observed_at)

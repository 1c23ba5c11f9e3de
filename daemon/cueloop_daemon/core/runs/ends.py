"""How runs end (contract section 7): outcome, exit code, blocking state and error of each ending. Pure."""

from __future__ import annotations

from typing import Literal

from cueloop_protocol.codes import error_document
from cueloop_protocol.documents.blocking import BlockingState, CiBlocked, LockBlocked, RunnerRecovery
from cueloop_protocol.documents.decision import Decision
from cueloop_protocol.documents.envelope import RunMode
from cueloop_protocol.documents.error import ErrorDocument


def error(code: str, message: str, detail: str | None = None) -> ErrorDocument:
    """An error document. ValueError for a code that is not of the closed list."""
    return ErrorDocument.model_validate(error_document(code, message, detail))


def refused(decision: Decision, observed_at: str) -> BlockingState:
    """The blocking state that repeats a refusal, word for word."""
    return BlockingState(
        status="stalled",
        reason=RunnerRecovery(scope=decision.scope, reason=decision.reason, task_id=decision.task_id),
        task_id=decision.task_id,
        message=decision.message,
        detail=decision.detail,
        observed_at=observed_at,
    )


def lock_blocked(path: str, label: str | None, pid: int | None, since: str | None, observed_at: str) -> BlockingState:
    """The queue lock is somebody else's."""
    holder = f"{label or 'another tool'}{'' if pid is None else f', pid {pid}'}{'' if since is None else f', since {since}'}"
    detail = "Wait until it has ended." if pid is not None else f"If nothing holds it, remove the folder {path}."
    return BlockingState(
        status="stalled",
        reason=LockBlocked(lock_path=path, owner=label, owner_pid=pid),
        message=f"Stalled: the queue lock is held by {holder}.",
        detail=detail,
        observed_at=observed_at,
    )


def ci_blocked(task_id: str, command: str, exit_code: int | None, pattern: str | None, observed_at: str) -> BlockingState:
    """The CI gate failed to the end; without an exit code where it was ended, or never began."""
    ended = "did not come to an end" if exit_code is None else f"failed with exit code {exit_code}"
    return BlockingState(
        status="stalled",
        reason=CiBlocked(exit_code=exit_code, pattern=pattern),
        task_id=task_id,
        message=f"Stalled: the CI gate of task {task_id} {ended}.",
        detail=f"Its command is {command}. The session stays; correct what it reports and resume.",
        observed_at=observed_at,
    )


def exit_of_refusal(mode: RunMode) -> int:
    """A refused `run one` exits 1, a refused loop 0."""
    return 1 if mode == "one" else 0


def outcome_of(blocking: BlockingState) -> Literal["no_candidates", "blocked"]:
    """Of a run that found nothing to do."""
    return "no_candidates" if blocking.reason.kind == "idle" else "blocked"

"""The sentences of the decisions. Two are prescribed to the letter by `session-management.md`; the others are ours."""

from __future__ import annotations

import json
from typing import Final

from cueloop_daemon.core.model import (
    SessionCorrupt,
    SessionTooLarge,
    SessionTooNew,
    SessionUnreadable,
)
from cueloop_daemon.core.stamps import Age, AgeUnknown
from cueloop_protocol.documents.decision import Decision, Reason, Status
from cueloop_protocol.documents.session import SESSION_VERSION, Session

FRESH: Final = "falling_back_to_fresh_invocation"
RESUME: Final = "resuming_same_session"
REFUSE: Final = "refusing_to_resume"

_SHOWN: Final = 60
"""Characters of somebody else's text that a sentence quotes."""


def task_of(session: Session) -> str:
    """The task a session belongs to, as ids are compared: trimmed (contract section 2)."""
    return session.task_id.strip()


def no_session() -> Decision:
    return _decision(
        FRESH, "no_session", None, "there is no saved session; starting fresh.", "No interrupted run is recorded here."
    )


def valid(session: Session) -> Decision:
    task = task_of(session)
    detail = f"Saved session is current and will resume from {_stand(session)}."
    return _decision(RESUME, "session_valid", task, f"continuing the interrupted session for task {task}.", detail)


def confirmed(session: Session, age: Age | AgeUnknown, limit: int) -> Decision:
    task = task_of(session)
    message = f"continuing the timed-out session for task {task}, as confirmed."
    detail = f"{_how_old(session, age, limit)} It will resume from {_stand(session)}."
    return _decision(RESUME, "session_timed_out_confirmed", task, message, detail)


def confirmation_required(session: Session) -> Decision:
    task = task_of(session)
    message = f"refusing to choose between the interrupted session for task {task} and a fresh start."
    detail = (
        f"The saved session is current and stands at {_stand(session)}. "
        "Start with --resume to continue it, or with --fresh to leave it behind."
    )
    return _decision(REFUSE, "resume_confirmation_required", task, message, detail)


def timed_out(session: Session, age: Age | AgeUnknown, limit: int) -> Decision:
    task = task_of(session)
    message = f"refusing to continue timed-out session {task} without explicit confirmation."
    return _decision(REFUSE, "session_timed_out_requires_confirmation", task, message, _how_old(session, age, limit))


def declined(session: Session) -> Decision:
    task = task_of(session)
    detail = f"The declined session stood at {_stand(session)}; the history keeps it."
    return _decision(FRESH, "session_declined", task, f"starting fresh; the session for task {task} was declined.", detail)


def overridden(session: Session, chosen: str) -> Decision:
    task = task_of(session)
    message = f"starting task {chosen}, which was selected explicitly, instead of the session for task {task}."
    detail = f"The session for task {task} stands at {_stand(session)}; the history keeps it once the new run replaces it."
    return _decision(FRESH, "explicit_task_selection_overrides_session", task, message, detail)


def stale(session: Session, why: str) -> Decision:
    """`why` continues "Its task RQ-0001 …"."""
    detail = f"Its task {task_of(session)} {why}."
    return _decision(FRESH, "session_stale", None, "the saved session is stale; starting fresh.", detail)


def target_missing(session: Session) -> Decision:
    task = task_of(session)
    message = f"task {task} disappeared from the queue before it could be resumed; starting fresh."
    detail = f"The session for task {task} stood at {_stand(session)}; the history keeps it."
    return _decision(FRESH, "resume_target_missing", task, message, detail)


def target_terminal(session: Session, status: str) -> Decision:
    task = task_of(session)
    message = f"task {task} became {status} before it could be resumed; starting fresh."
    detail = f"The session for task {task} stood at {_stand(session)}; the history keeps it."
    return _decision(FRESH, "resume_target_terminal", task, message, detail)


def corrupt_refused(file: SessionCorrupt | SessionTooLarge | SessionTooNew | SessionUnreadable) -> Decision:
    message = "refusing to guess what the saved session was; it cannot be used."
    return _decision(REFUSE, "session_cache_corrupt", None, message, _why_unusable(file))


def corrupt_left_behind(file: SessionCorrupt) -> Decision:
    message = "starting fresh, as asked; the damaged session file is put into quarantine."
    return _decision(FRESH, "session_cache_corrupt", None, message, file.detail)


def _decision(status: Status, reason: Reason, task_id: str | None, message: str, detail: str) -> Decision:
    return Decision(
        status=status, scope="run_session", reason=reason, task_id=task_id, message=f"Resume: {message}", detail=detail
    )


def _stand(session: Session) -> str:
    return f"phase {session.current_phase} with {session.tasks_completed_in_loop} completed loop task(s)"


def _how_old(session: Session, age: Age | AgeUnknown, limit: int) -> str:
    if isinstance(age, Age):
        return f"The saved session is {age.hours} hour(s) old, exceeding the configured {limit}-hour safety threshold."
    stamp = json.dumps(session.last_updated_at[:_SHOWN], ensure_ascii=False)
    return f"The age of the saved session cannot be established: its time stamp {stamp} {age.why}."


def _why_unusable(file: SessionCorrupt | SessionTooLarge | SessionTooNew | SessionUnreadable) -> str:
    if isinstance(file, SessionCorrupt):
        return f"{file.detail} The file is left as it is; --fresh starts over and keeps it in quarantine."
    if isinstance(file, SessionTooLarge):
        size = f"The session file has {file.size} bytes, more than 1 MiB, and is not read"
        return f"{size}; `cueloop session clear` moves it away."
    if isinstance(file, SessionTooNew):
        return (
            f"The session file has version {file.version}, newer than {SESSION_VERSION}, the one this program knows; "
            "update it, or move the file away with `cueloop session clear`."
        )
    return f"{file.detail} This is about access, not content: the file is never touched."

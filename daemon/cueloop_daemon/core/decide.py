"""The one place that decides what happens to an interrupted session (design section 3). Pure.

A preview and a run that starts ask the same function; what differs is the request. `decide` is its decision alone.
"""

from __future__ import annotations

from datetime import datetime
from enum import Enum

from cueloop_daemon.core import messages
from cueloop_daemon.core.model import (
    QueueFile,
    QueueMissing,
    SessionCorrupt,
    SessionLoaded,
    SessionMissing,
    SessionUnreadable,
    Snapshot,
    Unusable,
)
from cueloop_daemon.core.request import Choice, Request
from cueloop_daemon.core.selection import SETTLED, is_runnable, row_of
from cueloop_daemon.core.settled import settled
from cueloop_daemon.core.stamps import Age, AgeUnknown, age_of
from cueloop_protocol.documents.decision import Decision
from cueloop_protocol.values import dataclass


class FileAction(Enum):
    """What a run that really starts does to the session file, in the step that writes the new session and not before."""

    NOTHING = "there is no file"
    KEEP = "stays; a resumed run writes on in it"
    REPLACE = "stays until the new session replaces it, then goes to the history"
    TO_HISTORY = "goes to the history and is removed"
    QUARANTINE = "goes to quarantine, byte for byte"
    LEAVE = "is not touched"


@dataclass(frozen=True, slots=True)
class Question:
    """What a person has to choose before a run starts. `etag` names the file that an answer will be about."""

    choices: tuple[Choice, ...]
    etag: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """A decision (None: nothing to say), what it does to the file, and what is to be asked first.

    `question` is set only when the request says that somebody can be asked; until it is answered nothing may happen.
    `answer_is_void` says that the request's answer was about another file than the one there is.
    """

    decision: Decision | None
    action: FileAction
    question: Question | None = None
    answer_is_void: bool = False


def decide(facts: Snapshot, request: Request, now: datetime) -> Decision | None:
    """The decision for `request` at `now` (aware), or None where there is none to take.

    Without a usable configuration and queue there is none either; whoever needs one answers with their errors first.
    """
    return outcome(facts, request, now).decision


def outcome(facts: Snapshot, request: Request, now: datetime) -> Outcome:
    """The decision with its consequences. While a run is active, a preview is the decision that this run started with."""
    if facts.active_run is not None and request.under_lock is None:
        return Outcome(facts.active_run.decision, FileAction.KEEP)
    facts = settled(facts)
    if isinstance(facts.config, Unusable) or not isinstance(facts.queue, QueueFile):
        return Outcome(None, FileAction.LEAVE)
    file = facts.session
    if isinstance(file, SessionMissing):
        decision = messages.no_session() if request.announce_missing else None
        return Outcome(decision, FileAction.NOTHING, answer_is_void=request.answer is not None)
    if isinstance(file, SessionLoaded):
        return _loaded(file, facts.queue, facts.done, facts.config.agent.session_timeout_hours, request, now)
    if isinstance(file, SessionCorrupt):
        return _corrupt(file, request)
    void = request.answer is not None and (isinstance(file, SessionUnreadable) or request.answer.etag != file.etag)
    return Outcome(messages.corrupt_refused(file), FileAction.LEAVE, answer_is_void=void)


def _chosen(request: Request, etag: str) -> tuple[Choice | None, bool]:
    """What was chosen for the file `etag` names, and whether the answer was about another one. `fresh` fits any file."""
    void = request.answer is not None and request.answer.etag != etag
    if request.fresh:
        return "fresh", void
    if request.answer is None or void:
        return None, void
    return request.answer.choice, False


def _corrupt(file: SessionCorrupt, request: Request) -> Outcome:
    choice, void = _chosen(request, file.etag)
    if choice == "fresh":
        return Outcome(messages.corrupt_left_behind(file), FileAction.QUARANTINE, answer_is_void=void)
    question = Question(("fresh",), file.etag) if request.can_ask else None
    return Outcome(messages.corrupt_refused(file), FileAction.LEAVE, question, void)


def _loaded(
    file: SessionLoaded, queue: QueueFile, done: QueueFile | QueueMissing | Unusable, limit: int, request: Request, now: datetime
) -> Outcome:
    session = file.session
    choice, void = _chosen(request, file.etag)
    gone = _task_gone(file, queue, request)
    if gone is not None:
        return Outcome(gone, FileAction.TO_HISTORY, answer_is_void=void)
    chosen = request.task_id
    if chosen is not None and chosen.strip() != messages.task_of(session):
        archive = done if isinstance(done, QueueFile) else None
        # A task that cannot be run is no decision: the run says so and fails, and the session stays (design section 3).
        if not is_runnable(chosen, queue, archive, now, include_draft=request.include_draft):
            return Outcome(None, FileAction.KEEP, answer_is_void=void)
        return Outcome(messages.overridden(session, chosen.strip()), FileAction.REPLACE, answer_is_void=void)
    if choice == "fresh":
        return Outcome(messages.declined(session), FileAction.TO_HISTORY, answer_is_void=void)
    return Outcome(*_resumable(file, limit, request, choice, age_of(session.last_updated_at, now)), answer_is_void=void)


def _task_gone(file: SessionLoaded, queue: QueueFile, request: Request) -> Decision | None:
    """The decision about a session whose task can no longer be resumed, None while it can."""
    session = file.session
    task = messages.task_of(session)
    again = request.under_lock is not None and request.under_lock.resuming == task
    row = row_of(queue, task)
    if row is None:
        return messages.target_missing(session) if again else messages.stale(session, "is no longer in the queue")
    if row.kind == "group":
        return messages.stale(session, "is a group, which is not work that can be run")
    if row.status == "doing":
        return None
    if again and row.status in SETTLED:
        return messages.target_terminal(session, row.status)
    return messages.stale(session, f"has the status {row.status}, not doing")


def _resumable(
    file: SessionLoaded, limit: int, request: Request, choice: Choice | None, age: Age | AgeUnknown
) -> tuple[Decision, FileAction, Question | None]:
    """A session whose task is still being done, and nobody has declined: resumed, or refused until somebody chooses."""
    session = file.session
    question = Question(("resume", "fresh"), file.etag) if request.can_ask else None
    if isinstance(age, AgeUnknown) or age.hours >= limit:
        if choice == "resume":
            return messages.confirmed(session, age, limit), FileAction.KEEP, None
        return messages.timed_out(session, age, limit), FileAction.LEAVE, question
    if choice == "resume" or request.resume:
        return messages.valid(session), FileAction.KEEP, None
    return messages.confirmation_required(session), FileAction.LEAVE, question

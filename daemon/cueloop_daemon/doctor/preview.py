"""The preview in words: what the session is, what each kind of run would do next and why, and which ways there are to go on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Literal

from cueloop_daemon import answers
from cueloop_daemon.core.decide import outcome
from cueloop_daemon.core.model import (
    SessionCorrupt,
    SessionFile,
    SessionLoaded,
    SessionMissing,
    SessionTooLarge,
    SessionTooNew,
    SessionUnreadable,
    Snapshot,
)
from cueloop_daemon.core.request import run_request
from cueloop_daemon.core.runs.beginning import Bad, Chosen, Nothing, Refused, Wish, begin
from cueloop_daemon.core.settled import settled
from cueloop_daemon.core.stamps import Age, age_of, parse_stamp
from cueloop_daemon.doctor.sight import PHASES
from cueloop_daemon.doctor.ways import ways_on
from cueloop_daemon.doctor.words import age_words
from cueloop_protocol.documents.decision import Decision
from cueloop_protocol.documents.doctor import DoctorPreview, NextRun
from cueloop_protocol.documents.session import Session

COMMANDS: tuple[tuple[str, Literal["one", "loop", "resume"]], ...] = (
    ("cueloop run one", "one"),
    ("cueloop run loop", "loop"),
    ("cueloop run resume", "resume"),
)


def preview(facts: Snapshot, now: datetime, *, is_dirty: bool, past: Iterable[str] = ()) -> DoctorPreview:
    """The session of this moment and what becomes of it; `past` are sentences about what was before."""
    file = settled(facts).session
    session = file.session if isinstance(file, SessionLoaded) else None
    return DoctorPreview(
        session=_state(file),
        task_id=None if session is None else session.task_id.strip(),
        age_seconds=None if session is None else _age_seconds(session, now),
        words=(*_words(facts, file, now), *past),
        next=tuple(_next(facts, command, mode, now, is_dirty) for command, mode in COMMANDS),
        ways=() if is_at_work(facts) else ways_on(file, facts, now),
    )


def is_at_work(facts: Snapshot) -> bool:
    """Whether the session is not an interrupted one: a run of ours or of another tool is under way."""
    return facts.active_run is not None or answers.is_run_lock(facts.lock)


def _state(file: SessionFile) -> Literal["missing", "loaded", "corrupt", "too_large", "too_new", "unreadable"]:
    match file:
        case SessionMissing():
            return "missing"
        case SessionLoaded():
            return "loaded"
        case SessionCorrupt():
            return "corrupt"
        case SessionTooLarge():
            return "too_large"
        case SessionTooNew():
            return "too_new"
        case SessionUnreadable():
            return "unreadable"


def _words(facts: Snapshot, file: SessionFile, now: datetime) -> Iterator[str]:
    """What there is, in sentences."""
    if (run := facts.active_run) is not None:
        phase = f", phase {run.phase}" if run.phase else ""
        yield f"Run {run.run_id} ({run.mode}) is {run.state} here: task {run.task_id or 'not chosen yet'}{phase}, since {run.started_at}."
    elif (lock := facts.lock) is not None and answers.is_run_lock(lock):
        yield f"Another tool is at work here: {lock.label}, process {lock.pid}, since {lock.started_at}."
    for one in facts.owed:
        yield f"The work on {one.task_id} was accepted; the next run first finishes its completion, then decides."
    match file:
        case SessionMissing():
            yield "There is no interrupted session."
        case SessionLoaded(session):
            yield from _session(session, now, is_at_work=is_at_work(facts))
        case SessionCorrupt(detail):
            yield "The session file is damaged, so that nobody can know what was interrupted."
            yield detail
        case SessionTooLarge(size):
            yield f"The session file has {size} bytes, more than any session, and was not read."
        case SessionTooNew(version):
            yield f"The session file was written by a newer version (format {version})."
        case SessionUnreadable(detail):
            yield "There is something in the session file's place that cannot be read or is not touched."
            yield detail


def _session(session: Session, now: datetime, *, is_at_work: bool) -> Iterator[str]:
    task, seconds = session.task_id.strip(), _age_seconds(session, now)
    own = {1: session.phase1_settings, 2: session.phase2_settings, 3: session.phase3_settings}.get(session.current_phase)
    runner, model = (own.runner, own.model) if own is not None else (session.runner, session.model)
    by = f"{runner} with the model {model}" if model else runner
    if is_at_work:
        yield f"The session file is that run's: task {task}."
        return
    if seconds is None:
        yield f"A session of task {task} was interrupted; its age cannot be told from its time stamp {session.last_updated_at[:60]!r}."
    else:
        yield f"A session of task {task} was interrupted {age_words(seconds)} ago."
    yield (
        f"It stands in phase {session.current_phase} ({PHASES.get(session.current_phase, 'unknown')}), with "
        f"{session.iterations_completed} of {session.iterations_planned} iterations done by {by}."
    )
    if session.tasks_completed_in_loop or session.max_tasks != 1:
        limit = f"at most {session.max_tasks}" if session.max_tasks else "no limit"
        yield f"Its loop had finished {session.tasks_completed_in_loop} task(s), {limit}."


def _age_seconds(session: Session, now: datetime) -> int | None:
    moment = parse_stamp(session.last_updated_at)
    if moment is None or not isinstance(age_of(session.last_updated_at, now), Age):
        return None
    return max(int((now - moment).total_seconds()), 0)


def _next(facts: Snapshot, command: str, mode: Literal["one", "loop", "resume"], now: datetime, is_dirty: bool) -> NextRun:
    """What the command would do first. While something is at work: wait."""
    if (run := facts.active_run) is not None:
        return NextRun(command=command, would="wait", message=f"Run {run.run_id} is active: one run at a time.")
    if facts.lock is not None and facts.lock.live:
        message = f"The queue lock is held by {facts.lock.label or 'another tool'}, process {facts.lock.pid}: the run would end at once."
        return NextRun(command=command, would="wait", message=message)
    request = run_request(mode)
    found = begin(facts if not facts.owed else settled(facts), Wish(request, True), now)
    match found:
        case Bad(message=message, detail=detail):
            return NextRun(command=command, would="fail", message=message, detail=detail)
        case Refused(decision=decision):
            asks = outcome(facts, replace(request, can_ask=True), now).question is not None
            return _told(command, "ask" if asks else "refuse", decision, decision.task_id)
        case Nothing(blocking=blocking, decision=decision):
            message = blocking.message if decision is None else f"{decision.message} {blocking.message}"
            reason = None if decision is None else decision.reason
            return NextRun(command=command, would="idle", reason=reason, message=message, detail=blocking.detail)
        case Chosen(decision=decision, task_id=task, title=title, session=session, declined_own=declined):
            if is_dirty and session is None and not declined:
                message = f"It would stop before task {task}: the work tree has changes that are not committed."
                return NextRun(
                    command=command, would="fail", task_id=task, message=message, detail="Commit or stash them, or say --force."
                )
            if session is not None and decision is not None:
                return _told(command, "resume", decision, task)
            why = decision.message if decision is not None else "There is no session to go on with."
            detail = f"It takes task {task}: {title}" if decision is None else f"{decision.detail} It takes task {task}: {title}"
            reason = None if decision is None else decision.reason
            return NextRun(command=command, would="fresh", task_id=task, reason=reason, message=why, detail=detail)


def _told(command: str, would: Literal["resume", "ask", "refuse"], decision: Decision, task: str | None) -> NextRun:
    return NextRun(
        command=command, would=would, task_id=task, reason=decision.reason, message=decision.message, detail=decision.detail
    )

"""What a run does first, once it holds the queue lock: refuse, report that nothing can be run, or take a task. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from cueloop_daemon.core import blocked
from cueloop_daemon.core.decide import FileAction, outcome
from cueloop_daemon.core.model import QueueFile, QueueMissing, SessionCorrupt, SessionLoaded, Snapshot, TaskRow, Unusable
from cueloop_daemon.core.overview import missing_queue, queue_report
from cueloop_daemon.core.request import Request
from cueloop_daemon.core.selection import SETTLED, due_at, next_task, row_of, unmet_dependencies
from cueloop_daemon.core.stamps import format_stamp
from cueloop_daemon.core.validity import broken_rule
from cueloop_protocol.documents.blocking import BlockingState
from cueloop_protocol.documents.config import Config
from cueloop_protocol.documents.decision import Decision
from cueloop_protocol.documents.session import Session
from cueloop_protocol.values import dataclass


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Refused(_Value):
    """The decision refuses: a person must choose."""

    kind: Literal["refused"] = "refused"
    decision: Decision


class Bad(_Value):
    """The run cannot begin: a document cannot be used, or the task that was asked for cannot be run. `code` is an error document's."""

    kind: Literal["bad"] = "bad"
    code: str
    message: str
    detail: str | None = None
    decision: Decision | None = None


class Nothing(_Value):
    """There is nothing to run now; `blocking` says why."""

    kind: Literal["nothing"] = "nothing"
    blocking: BlockingState
    decision: Decision | None = None


class Chosen(_Value):
    """The task to run. `action` is a FileAction's name; `session` the one that is resumed."""

    kind: Literal["chosen"] = "chosen"
    decision: Decision | None
    task_id: str
    title: str
    action: str
    seen: str | None = None
    """The etag of the session file that was decided about; None: there was none."""
    session: Session | None = None
    declined_own: bool = False
    """The session that was declined is this very task's: its changes in the tree are no obstacle."""


Beginning = Annotated[Refused | Bad | Nothing | Chosen, Field(discriminator="kind")]
BEGINNING: TypeAdapter[Refused | Bad | Nothing | Chosen] = TypeAdapter(Beginning)


@dataclass(frozen=True, slots=True)
class Wish:
    """What the run asks for: the request of its decision, as it stands under the lock."""

    request: Request
    is_first: bool
    """A run's first task: only then is a session looked at that the run did not make itself."""


def begin(facts: Snapshot, wish: Wish, now: datetime) -> Refused | Bad | Nothing | Chosen:
    """What to do with this repository at this moment."""
    if isinstance(facts.config, Unusable):
        return _unusable(facts.config)
    if isinstance(facts.queue, Unusable):
        return _unusable(facts.queue)
    if isinstance(facts.done, Unusable):
        return _unusable(facts.done)
    if isinstance(facts.queue, QueueMissing):
        return _unusable(missing_queue(facts.queue))
    done = facts.done if isinstance(facts.done, QueueFile) else None
    problem = broken_rule(facts.queue, done, facts.config.queue.id_prefix, facts.config.queue.id_width)
    if problem is not None:
        message = f"The queue {facts.paths.queue_path} is not valid: {problem}"
        return Bad(code="queue_corrupted", message=message, detail=f"Repair it: {blocked.REPAIR}.")
    return _with_queue(facts, facts.queue, done, facts.config, wish, now)


def _with_queue(
    facts: Snapshot, queue: QueueFile, done: QueueFile | None, config: Config, wish: Wish, now: datetime
) -> Refused | Bad | Nothing | Chosen:
    found = outcome(facts, wish.request, now)
    decision = found.decision
    if decision is not None and decision.status == "refusing_to_resume":
        return Refused(decision=decision)
    if decision is not None and decision.status == "resuming_same_session" and isinstance(facts.session, SessionLoaded):
        row = row_of(queue, facts.session.session.task_id)
        assert row is not None, "a session whose task is gone is not resumed"
        return _chosen(row, decision, found.action, facts, facts.session.session)
    if wish.request.task_id is not None:
        return _explicit(wish.request.task_id, queue, done, wish, now, decision, found.action, facts)
    row = next_task(queue, done, now, include_draft=wish.request.include_draft)
    if row is None:
        return Nothing(blocking=why_nothing(queue, done, config, now, wish.request.include_draft), decision=decision)
    return _chosen(row, decision, found.action, facts)


def _explicit(
    task_id: str,
    queue: QueueFile,
    done: QueueFile | None,
    wish: Wish,
    now: datetime,
    decision: Decision | None,
    action: FileAction,
    facts: Snapshot,
) -> Bad | Chosen:
    row = row_of(queue, task_id)
    why = _why_not(row, task_id, queue, done, wish, now)
    if why is not None or row is None:
        return Bad(code="unknown", message=why or f"There is no task {task_id}.", decision=decision)
    return _chosen(row, decision, action, facts)


def _chosen(
    row: TaskRow, decision: Decision | None, action: FileAction, facts: Snapshot, resumed: Session | None = None
) -> Chosen:
    file = facts.session
    own = isinstance(file, SessionLoaded) and file.session.task_id.strip() == row.id.strip()
    return Chosen(
        decision=decision,
        task_id=row.id.strip(),
        title=row.title,
        action=action.name,
        seen=file.etag if isinstance(file, SessionLoaded | SessionCorrupt) else None,
        session=resumed,
        declined_own=decision is not None and decision.reason == "session_declined" and own,
    )


def _why_not(
    row: TaskRow | None, task_id: str, queue: QueueFile, done: QueueFile | None, wish: Wish, now: datetime
) -> str | None:
    """One sentence about why the task that was asked for cannot be run; None if it can."""
    name = task_id.strip()
    if row is None:
        archived = done is not None and row_of(done, name) is not None
        return f"Task {name} is in the done file already." if archived else f"There is no task {name} in the queue."
    if row.kind == "group":
        return f"Task {name} is a group, which is not work that can be run."
    if row.status in SETTLED:
        return f"Task {name} is {row.status} already."
    if row.status == "draft" and not wish.request.include_draft:
        return f"Task {name} is a draft; make it ready first, or give --include-draft."
    if row.status == "doing":
        return None
    due = due_at(row, now)
    if due is not None:
        return f"Task {name} is scheduled for {row.scheduled_start}."
    unmet = unmet_dependencies(row, queue, done)
    if unmet:
        return f"Task {name} waits for {', '.join(one.id for one in unmet)}."
    return None


def why_nothing(queue: QueueFile, done: QueueFile | None, config: Config, now: datetime, include_draft: bool) -> BlockingState:
    """Why no task can be run, from the same report that the overview shows."""
    summary = queue_report(queue, done, config, now).document["summary"]
    state = summary.get("blocking") if isinstance(summary, dict) else None
    if not isinstance(state, BlockingState) or state.reason.kind == "idle":
        return blocked.idle(format_stamp(now), include_draft=include_draft)
    return state


def _unusable(document: Unusable) -> Bad:
    return Bad(code=document.code, message=document.message, detail=document.detail)

"""The runnability report of the workspace overview (contract section 7): plain dicts in printing order, cheap for many tasks."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from cueloop_daemon.core import blocked
from cueloop_daemon.core.model import QueueFile, TaskRow
from cueloop_daemon.core.selection import SETTLED, due_at, unmet_dependencies
from cueloop_daemon.core.stamps import format_stamp
from cueloop_protocol.documents.blocking import BlockingState
from cueloop_protocol.values import dataclass

Json = dict[str, object]
"""An object on its way to JSON, built here and encoded at once."""

VERSION: Final = 2


@dataclass(frozen=True, slots=True)
class Report:
    """The report as JSON values, and the first runnable `todo`."""

    document: Json
    next_runnable: str | None


@dataclass(slots=True)
class _Tally:
    """Counts over the candidates: the work that is `todo`."""

    candidates: int = 0
    runnable: int = 0
    by_dependencies: int = 0
    by_schedule: int = 0
    earliest: tuple[datetime, str] | None = None


def report(queue: QueueFile, done: QueueFile | None, first_draft: str | None, now: datetime) -> Report:
    """The report for a valid queue at `now`. `first_draft` is the draft to make ready first where all work is drafts."""
    said_now = format_stamp(now)
    tally = _Tally()
    rows: list[Json] = []
    doing: TaskRow | None = None
    ready: TaskRow | None = None
    for row in queue.rows:
        due = due_at(row, now)
        unmet = _waits_for(row, queue, done)
        reasons = _reasons(row, unmet, due, now, said_now)
        rows.append({"id": row.id, "kind": row.kind, "status": row.status, "runnable": not reasons, "reasons": reasons})
        if row.kind != "work_item":
            continue
        if row.status == "doing":
            doing = doing or row
        elif row.status == "todo":
            _count(tally, row, bool(unmet), due)
            ready = ready or (row if not reasons else None)
    state = _blocking(tally, doing is not None, first_draft, now, said_now)
    summary = _summary(len(rows), tally, state)
    document = _document(said_now, doing or ready, summary, rows)
    return Report(document, None if ready is None else ready.id)


def invalid_report(queue: QueueFile, problem: str, now: datetime) -> Report:
    """The report for a queue that breaks a rule: nothing is said of its tasks, and nothing is selected."""
    said_now = format_stamp(now)
    candidates = sum(row.status == "todo" and row.kind == "work_item" for row in queue.rows)
    summary = _summary(len(queue.rows), _Tally(candidates=candidates), blocked.not_valid(problem, said_now))
    return Report(_document(said_now, None, summary, []), None)


def _waits_for(row: TaskRow, queue: QueueFile, done: QueueFile | None) -> list[Json]:
    if not row.depends_on or row.kind != "work_item" or row.status == "draft" or row.status in SETTLED:
        return []
    return [
        {"kind": "missing", "id": unmet.id}
        if unmet.status is None
        else {"kind": "not_complete", "id": unmet.id, "status": unmet.status}
        for unmet in unmet_dependencies(row, queue, done)
    ]


def _reasons(row: TaskRow, unmet: list[Json], due: datetime | None, now: datetime, said_now: str) -> list[Json]:
    """Everything that keeps `row` from being run, in the contract's order: kind, status, dependencies, schedule."""
    reasons: list[Json] = []
    if row.kind != "work_item":
        reasons.append({"kind": "non_executable_kind", "task_kind": row.kind})
    if row.status in SETTLED:
        reasons.append({"kind": "status_not_runnable", "status": row.status})
    elif row.status == "draft":
        reasons.append({"kind": "draft_excluded"})
    if unmet:
        reasons.append({"kind": "unmet_dependencies", "dependencies": unmet})
    if due is not None and row.kind == "work_item" and row.status not in SETTLED:
        reasons.append(
            {
                "kind": "scheduled_start_in_future",
                "scheduled_start": row.scheduled_start,
                "now": said_now,
                "seconds_until_runnable": _seconds(due, now),
            }
        )
    return reasons


def _count(tally: _Tally, row: TaskRow, waits: bool, due: datetime | None) -> None:
    tally.candidates += 1
    tally.by_dependencies += waits
    if due is not None and row.scheduled_start is not None:
        tally.by_schedule += 1
        if tally.earliest is None or due < tally.earliest[0]:
            tally.earliest = (due, row.scheduled_start)
    elif not waits:
        tally.runnable += 1


def _blocking(tally: _Tally, is_doing: bool, first_draft: str | None, now: datetime, said_now: str) -> BlockingState | None:
    """Why nothing would be run. Not "idle" while a `doing` task would be taken up again (contract section 9, row 15)."""
    if tally.runnable:
        return None
    if tally.by_schedule and tally.by_dependencies:
        return blocked.mixed(tally.by_dependencies, tally.by_schedule, said_now)
    if tally.by_dependencies:
        return blocked.by_dependencies(tally.by_dependencies, said_now)
    if tally.earliest is not None:
        due, text = tally.earliest
        return blocked.by_schedule(tally.by_schedule, text, _seconds(due, now), said_now)
    if is_doing:
        return None
    return blocked.idle(said_now) if first_draft is None else blocked.all_drafts(first_draft, said_now)


def _seconds(due: datetime, now: datetime) -> int:
    return (due - now) // timedelta(seconds=1)


def _summary(total: int, tally: _Tally, state: BlockingState | None) -> Json:
    summary: Json = {
        "total_active": total,
        "candidates_total": tally.candidates,
        "runnable_candidates": tally.runnable,
        "blocked_by_dependencies": tally.by_dependencies,
        "blocked_by_schedule": tally.by_schedule,
        "blocked_by_status_or_flags": 0,
    }
    if state is not None:
        summary["blocking"] = state
    return summary


def _document(said_now: str, selected: TaskRow | None, summary: Json, rows: list[Json]) -> Json:
    return {
        "version": VERSION,
        "now": said_now,
        "selection": {
            "include_draft": False,
            "prefer_doing": True,
            "selected_task_id": None if selected is None else selected.id,
            "selected_task_status": None if selected is None else selected.status,
        },
        "summary": summary,
        "tasks": rows,
    }

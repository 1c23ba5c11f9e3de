"""Which task is next, and whether one can be run at all (contract section 8, "Next task"). File order, whatever the priority."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final, Literal, NamedTuple

from cueloop_daemon.core.model import QueueFile, TaskRow
from cueloop_daemon.core.stamps import parse_stamp

SETTLED: Final = frozenset({"done", "rejected"})
"""The statuses that satisfy a dependency."""


class UnmetDependency(NamedTuple):
    """A dependency that keeps a task from running; `status` is None where no such task exists."""

    id: str
    status: str | None


def row_of(queue: QueueFile, task_id: str) -> TaskRow | None:
    """The first task with this id: both sides trimmed, case-sensitive. A blank id is no task's."""
    position = queue.index.get(task_id.strip())
    return None if position is None else queue.rows[position]


def unmet_dependencies(row: TaskRow, queue: QueueFile, done: QueueFile | None) -> list[UnmetDependency]:
    """What `row` still waits for, in its own order. The queue is looked at first, then the done file."""
    unmet: list[UnmetDependency] = []
    for name in row.depends_on:
        found = row_of(queue, name) or (None if done is None else row_of(done, name))
        if found is None:
            unmet.append(UnmetDependency(name, None))
        elif found.status not in SETTLED:
            unmet.append(UnmetDependency(name, found.status))
    return unmet


def due_at(row: TaskRow, now: datetime) -> datetime | None:
    """The moment from which `row` may run if it lies after `now`; a stamp that cannot be read holds nothing up."""
    if row.scheduled_start is None:
        return None
    moment = parse_stamp(row.scheduled_start)
    return moment if moment is not None and moment > now else None


def is_free(row: TaskRow, queue: QueueFile, done: QueueFile | None, now: datetime) -> bool:
    """Whether neither a dependency nor the schedule holds `row` up."""
    return due_at(row, now) is None and not unmet_dependencies(row, queue, done)


def is_runnable(task_id: str, queue: QueueFile, done: QueueFile | None, now: datetime, *, include_draft: bool = False) -> bool:
    """Whether a run may take up this very task: one that is `doing`, or a free `todo` (or draft, where those count)."""
    row = row_of(queue, task_id)
    if row is None or row.kind != "work_item":
        return False
    if row.status == "doing":
        return True
    return row.status in _waiting(include_draft) and is_free(row, queue, done, now)


def next_todo(queue: QueueFile, done: QueueFile | None, now: datetime, *, include_draft: bool = False) -> TaskRow | None:
    """The first `todo` that can be run; where drafts count, the first such draft if there is no `todo`."""
    for status in _waiting(include_draft):
        for row in _work(queue, status):
            if is_free(row, queue, done, now):
                return row
    return None


def next_task(queue: QueueFile, done: QueueFile | None, now: datetime, *, include_draft: bool = False) -> TaskRow | None:
    """What a run takes up when no task was asked for: the first `doing`, else `next_todo`."""
    return next(_work(queue, "doing"), None) or next_todo(queue, done, now, include_draft=include_draft)


def _waiting(include_draft: bool) -> tuple[Literal["todo", "draft"], ...]:
    return ("todo", "draft") if include_draft else ("todo",)


def _work(queue: QueueFile, status: str) -> Iterator[TaskRow]:
    return (row for row in queue.rows if row.status == status and row.kind == "work_item")

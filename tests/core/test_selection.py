"""Which task is next, and whether one may be run (contract section 8)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from cueloop_daemon.core.checked import CheckedQueue
from cueloop_daemon.core.selection import (
    UnmetDependency,
    due_at,
    is_runnable,
    next_task,
    next_todo,
    row_of,
    unmet_dependencies,
)
from cueloop_daemon.core.stamps import format_stamp
from decision_world import NOW, queue, task

FUTURE, PAST = "2999-01-01T00:00:00Z", "2020-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("tasks", "following", "todo"),
    [
        (queue(), None, None),
        (queue(task(1, "draft")), None, None),
        (queue(task(1, "done"), task(2, "rejected")), None, None),
        (queue(task(2), task(1, "doing")), "RQ-0001", "RQ-0002"),
        (queue(task(1, "doing"), task(2, "doing")), "RQ-0001", None),
        (queue(task(1, "doing", scheduled_start=FUTURE, depends_on=["RQ-0002"]), task(2)), "RQ-0001", "RQ-0002"),
        (queue(task(1, priority="low"), task(2, priority="critical")), "RQ-0001", "RQ-0001"),
        (queue(task(1, "doing", kind="group"), task(2, kind="group"), task(3)), "RQ-0003", "RQ-0003"),
        (queue(task(1, scheduled_start=FUTURE), task(2)), "RQ-0002", "RQ-0002"),
        (queue(task(1, scheduled_start=PAST)), "RQ-0001", "RQ-0001"),
        (queue(task(1, scheduled_start="soon")), "RQ-0001", "RQ-0001"),
        (queue(task(1, depends_on=["RQ-0002"]), task(2)), "RQ-0002", "RQ-0002"),
        (queue(task(1, depends_on=["RQ-0002"]), task(2, "done")), "RQ-0001", "RQ-0001"),
        (queue(task(1, depends_on=[" RQ-0002 "]), task(2, "rejected")), "RQ-0001", "RQ-0001"),
        (queue(task(1, depends_on=["RQ-0404"])), None, None),
    ],
    ids=range(15),
)
def test_the_next_task(tasks: CheckedQueue, following: str | None, todo: str | None) -> None:
    chosen, waiting = next_task(tasks, None, NOW), next_todo(tasks, None, NOW)
    assert (None if chosen is None else chosen.id) == following
    assert (None if waiting is None else waiting.id) == todo


def test_drafts_come_after_every_todo_where_they_count() -> None:
    tasks = queue(task(1, "draft"), task(2))
    chosen = next_todo(tasks, None, NOW, include_draft=True)
    assert chosen is not None
    assert chosen.id == "RQ-0002"
    drafts = queue(task(1, "draft", scheduled_start=FUTURE), task(2, "draft"))
    chosen = next_task(drafts, None, NOW, include_draft=True)
    assert chosen is not None
    assert chosen.id == "RQ-0002"
    assert next_task(drafts, None, NOW) is None


@pytest.mark.parametrize(
    ("task_id", "runs", "runs_as_draft"),
    [
        ("RQ-0001", True, True),
        (" RQ-0002 ", True, True),
        ("rq-0002", False, False),
        ("RQ-0003", False, True),
        ("RQ-0004", False, False),
        ("RQ-0005", False, False),
        ("RQ-0006", False, False),
        ("RQ-0007", False, False),
        ("RQ-0008", False, False),
        ("RQ-0404", False, False),
        ("", False, False),
    ],
)
def test_whether_a_task_may_be_run(task_id: str, runs: bool, runs_as_draft: bool) -> None:
    tasks = queue(
        task(1, "doing", depends_on=["RQ-0002"]),
        task(2),
        task(3, "draft"),
        task(4, "done"),
        task(5, "rejected"),
        task(6, kind="group"),
        task(7, depends_on=["RQ-0003"]),
        task(8, "draft", scheduled_start=FUTURE),
        task(9, id=" "),
    )
    assert is_runnable(task_id, tasks, None, NOW) is runs
    assert is_runnable(task_id, tasks, None, NOW, include_draft=True) is runs_as_draft


def test_a_dependency_is_looked_up_in_the_queue_and_then_in_the_done_file() -> None:
    tasks = queue(task(1, depends_on=["RQ-0002", "RQ-0003", "RQ-0004", "RQ-0005"]), task(2), task(3, "done"))
    row = tasks.rows[0]
    assert unmet_dependencies(row, tasks, None) == [
        UnmetDependency("RQ-0002", "todo"),
        UnmetDependency("RQ-0004", None),
        UnmetDependency("RQ-0005", None),
    ]
    done = queue(task(2, "done"), task(4, "rejected"), task(5, "draft"))
    assert unmet_dependencies(row, tasks, done) == [UnmetDependency("RQ-0002", "todo"), UnmetDependency("RQ-0005", "draft")]


@pytest.mark.parametrize(("ahead", "is_due"), [(timedelta(microseconds=1), False), (timedelta(0), True), (timedelta(-1), True)])
def test_a_task_is_due_at_its_very_moment(ahead: timedelta, is_due: bool) -> None:
    tasks = queue(task(1, scheduled_start=format_stamp(NOW + ahead)))
    assert (due_at(tasks.rows[0], NOW) is None) is is_due
    assert is_runnable("RQ-0001", tasks, None, NOW) is is_due


def test_the_first_of_equal_ids_counts() -> None:
    row = row_of(queue(task(1, "done"), task(1, "doing")), "RQ-0001")
    assert row is not None
    assert row.status == "done"

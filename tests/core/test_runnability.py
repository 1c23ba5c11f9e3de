"""The runnability report: reasons, counts, what is selected, and what blocks (contract section 7)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pydantic_core import to_json

from cueloop_daemon.core.blocked import idle
from cueloop_daemon.core.checked import CheckedQueue
from cueloop_daemon.core.runnability import invalid_report, report
from cueloop_daemon.core.stamps import format_stamp
from cueloop_protocol.documents.blocking import BlockingState
from cueloop_protocol.documents.overview import Runnability
from decision_world import NOW, queue, task

SAID_NOW = format_stamp(NOW)
SOON, LATER = format_stamp(NOW + timedelta(seconds=90, microseconds=1)), "2999-01-01T00:00:00+01:00"


def read(tasks: CheckedQueue, done: CheckedQueue | None = None) -> Runnability:
    return Runnability.model_validate_json(to_json(report(tasks, done, tasks.first_draft, NOW).document))


def scheduled(text: str, seconds: int) -> dict[str, object]:
    return {"kind": "scheduled_start_in_future", "scheduled_start": text, "now": SAID_NOW, "seconds_until_runnable": seconds}


UNMET = {
    "kind": "unmet_dependencies",
    "dependencies": [{"kind": "not_complete", "id": "RQ-0008", "status": "doing"}, {"kind": "missing", "id": "RQ-0404"}],
}
WAITS = ["RQ-0008", "RQ-0009", "RQ-0404"]


@pytest.mark.parametrize(
    ("row", "reasons"),
    [
        (task(1), []),
        (task(1, "doing"), []),
        (task(1, "draft"), [{"kind": "draft_excluded"}]),
        (task(1, "done"), [{"kind": "status_not_runnable", "status": "done"}]),
        (task(1, "rejected"), [{"kind": "status_not_runnable", "status": "rejected"}]),
        (task(1, kind="group"), [{"kind": "non_executable_kind", "task_kind": "group"}]),
        (
            task(1, "done", kind="group", depends_on=WAITS, scheduled_start=SOON),
            [{"kind": "non_executable_kind", "task_kind": "group"}, {"kind": "status_not_runnable", "status": "done"}],
        ),
        (task(1, depends_on=WAITS), [UNMET]),
        (task(1, "doing", depends_on=WAITS), [UNMET]),
        (task(1, depends_on=WAITS, scheduled_start=SOON), [UNMET, scheduled(SOON, 90)]),
        (task(1, "draft", depends_on=WAITS, scheduled_start=SOON), [{"kind": "draft_excluded"}, scheduled(SOON, 90)]),
        (task(1, "done", depends_on=WAITS, scheduled_start=SOON), [{"kind": "status_not_runnable", "status": "done"}]),
        (task(1, scheduled_start=SAID_NOW), []),
        (task(1, scheduled_start="soon"), []),
    ],
    ids=range(14),
)
def test_the_reasons_of_a_task(row: dict[str, object], reasons: list[object]) -> None:
    found = read(queue(row, task(8, "doing"), task(9, "done"))).tasks[0]
    assert found.model_dump(mode="json")["reasons"] == reasons
    assert found.runnable is (reasons == [])


def test_a_dependency_may_be_in_the_done_file() -> None:
    assert read(queue(task(1, depends_on=["RQ-0002"])), queue(task(2, "done"))).tasks[0].runnable


BLOCKINGS: list[tuple[CheckedQueue, dict[str, object] | None]] = [
    (queue(), {"status": "waiting", "reason": {"kind": "idle", "include_draft": False}}),
    (queue(task(1, "done"), task(2, "draft")), {"status": "waiting", "reason": {"kind": "idle", "include_draft": False}}),
    (queue(task(1)), None),
    (queue(task(1, "doing")), None),
    (queue(task(1, "doing", scheduled_start=LATER), task(2, "draft")), None),
    (
        queue(task(1, depends_on=["RQ-0002"]), task(2, "doing")),
        {"status": "blocked", "reason": {"kind": "dependency_blocked", "blocked_tasks": 1}},
    ),
    (
        queue(task(1, scheduled_start=LATER), task(2, scheduled_start=SOON), task(3, "draft", scheduled_start=SAID_NOW)),
        {
            "status": "waiting",
            "reason": {
                "kind": "schedule_blocked",
                "blocked_tasks": 2,
                "next_runnable_at": SOON,
                "seconds_until_next_runnable": 90,
            },
        },
    ),
    (
        queue(task(1, scheduled_start=LATER, depends_on=["RQ-0002"]), task(2, "draft")),
        {
            "status": "blocked",
            "reason": {"kind": "mixed_queue", "dependency_blocked": 1, "schedule_blocked": 1, "status_filtered": 0},
        },
    ),
    (queue(task(1, scheduled_start=LATER), task(2)), None),
]


@pytest.mark.parametrize(("tasks", "expected"), BLOCKINGS, ids=range(len(BLOCKINGS)))
def test_what_blocks_a_queue(tasks: CheckedQueue, expected: dict[str, object] | None) -> None:
    state = read(tasks).summary.blocking
    if expected is None:
        assert state is None
    else:
        assert state is not None
        assert state.observed_at == SAID_NOW
        shown = state.model_dump(mode="json")
        assert {key: shown[key] for key in expected} == expected
        assert "task_id" not in shown


@pytest.mark.parametrize(
    ("tasks", "first"),
    [
        (queue(task(1, "draft")), "RQ-0001"),
        (queue(task(1, "draft", kind="group"), task(2, "draft", parent_id="RQ-0001")), "RQ-0002"),
        (queue(task(1, "draft"), task(2, "draft", parent_id=" RQ-0001 ")), "RQ-0002"),
        (queue(task(1, "draft", parent_id="RQ-0001")), "RQ-0001"),
        (queue(task(1, "done", kind="group"), task(2, "draft")), "RQ-0002"),
    ],
    ids=range(5),
)
def test_where_all_work_is_drafts_the_first_to_make_ready_is_named(tasks: CheckedQueue, first: str) -> None:
    state = read(tasks).summary.blocking
    assert isinstance(state, BlockingState)
    assert state.task_id == first
    assert first in state.detail
    assert state.model_dump(mode="json")["reason"] == {"kind": "idle", "include_draft": False}


def test_counts_and_selection() -> None:
    tasks = queue(
        task(1, depends_on=["RQ-0002"]),
        task(2, "doing"),
        task(3, scheduled_start=SOON),
        task(4),
        task(5, "draft"),
        task(6, kind="group"),
        task(7, "doing"),
    )
    found = report(tasks, None, None, NOW)
    said = Runnability.model_validate_json(to_json(found.document))
    assert found.next_runnable == "RQ-0004"
    assert said.now == SAID_NOW
    assert (said.selection.selected_task_id, said.selection.selected_task_status) == ("RQ-0002", "doing")
    assert said.summary.model_dump() == {
        "total_active": 7,
        "candidates_total": 3,
        "runnable_candidates": 1,
        "blocked_by_dependencies": 1,
        "blocked_by_schedule": 1,
        "blocked_by_status_or_flags": 0,
    }
    assert [row.runnable for row in said.tasks] == [False, True, False, True, False, False, True]


def test_a_queue_that_is_not_valid_is_told_and_nothing_is_selected() -> None:
    found = invalid_report(queue(task(1, "doing"), task(2), task(3, kind="group"), task(4)), "It is broken.", NOW)
    said = Runnability.model_validate_json(to_json(found.document))
    assert found.next_runnable is None
    assert said.tasks == ()
    assert said.selection.selected_task_id is None
    assert (said.summary.total_active, said.summary.candidates_total) == (4, 2)
    assert said.summary.blocking is not None
    assert said.summary.blocking.detail == "It is broken."
    assert said.summary.blocking.model_dump(mode="json")["reason"] == {
        "kind": "operator_recovery",
        "scope": "queue_validate",
        "reason": "validation_failed",
        "suggested_command": "cueloop machine queue repair --dry-run",
    }


def test_idle_says_whether_drafts_counted() -> None:
    assert "todo or draft" in idle(SAID_NOW, include_draft=True).message
    assert "draft" not in idle(SAID_NOW).message

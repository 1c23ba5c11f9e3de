"""The next moment at which time alone changes an answer, and that nothing changes before it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cueloop_daemon.core.decide import decide
from cueloop_daemon.core.horizon import horizon
from cueloop_daemon.core.model import QueueMissing, SessionCorrupt, Snapshot
from cueloop_daemon.core.request import PREVIEW, Request
from cueloop_daemon.core.runnability import report
from cueloop_daemon.core.selection import next_task
from cueloop_daemon.core.stamps import SKEW, format_stamp
from decision_world import NOW, config, loaded, queue, snapshot, task

HOUR = timedelta(hours=1)
TICK = timedelta(microseconds=1)
IDLE = queue(task(1, "doing"))


def due(ahead: timedelta, number: int = 2, status: str = "todo") -> dict[str, object]:
    return task(number, status, scheduled_start=format_stamp(NOW + ahead))


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (snapshot(), None),
        (snapshot(SessionCorrupt("d", "e")), None),
        (snapshot(loaded(timedelta(0))), NOW + HOUR),
        (snapshot(loaded(10 * timedelta(minutes=1))), NOW + timedelta(minutes=50)),
        (snapshot(loaded(24 * HOUR - TICK)), NOW + TICK),
        (snapshot(loaded(24 * HOUR)), NOW + HOUR),
        (snapshot(loaded(-SKEW)), NOW + SKEW + HOUR),
        (snapshot(loaded(-SKEW - TICK)), NOW + TICK),
        (snapshot(loaded(timedelta(days=-3))), NOW + timedelta(days=3) - SKEW),
        (snapshot(loaded(last_updated_at="yesterday")), None),
        (snapshot(loaded(timedelta(0)), QueueMissing("/q")), NOW + HOUR),
        (snapshot(None, queue(due(TICK))), NOW + TICK),
        (snapshot(None, queue(due(HOUR), due(timedelta(minutes=1), 3, "draft"))), NOW + timedelta(minutes=1)),
        (snapshot(None, queue(due(timedelta(0)), due(-HOUR, 3))), None),
        (snapshot(None, queue(due(HOUR, 2, "done"), due(HOUR, 3, "rejected"), task(4, scheduled_start="soon"))), None),
        (snapshot(loaded(timedelta(0)), queue(due(2 * HOUR))), NOW + HOUR),
    ],
    ids=range(16),
)
def test_the_next_change(facts: Snapshot, expected: datetime | None) -> None:
    assert horizon(facts, NOW) == expected


def test_an_hour_that_no_date_can_hold_is_no_change() -> None:
    late = datetime(9999, 12, 31, 23, 30, tzinfo=UTC)
    assert horizon(snapshot(loaded(last_updated_at=format_stamp(late))), late) is None


def _answers(facts: Snapshot, now: datetime) -> object:
    """What is said at a moment, but for the moment itself and the seconds that count down to a schedule."""
    assert isinstance(facts.queue, type(IDLE))
    chosen = next_task(facts.queue, None, now)
    rows = report(facts.queue, None, None, now).document["tasks"]
    assert isinstance(rows, list)
    decisions = [decide(facts, request, now) for request in (PREVIEW, Request(resume=False), Request(task_id="RQ-0002"))]
    return chosen, [(row["runnable"], [reason["kind"] for reason in row["reasons"]]) for row in rows], decisions


MINUTES = st.integers(-3 * 60, 30 * 60)


@given(MINUTES, st.lists(MINUTES, max_size=3), st.integers(1, 25), st.floats(0, 1, exclude_max=True))
def test_no_answer_changes_before_the_horizon(age: int, schedule: list[int], limit: int, fraction: float) -> None:
    tasks = [due(timedelta(minutes=ahead), number + 2) for number, ahead in enumerate(schedule)]
    facts = snapshot(
        loaded(timedelta(minutes=age)), queue(task(1, "doing"), *tasks), settings=config(session_timeout_hours=limit)
    )
    until = horizon(facts, NOW)
    assert until is not None
    assert until > NOW
    for moment in (min(NOW + (until - NOW) * fraction, until - TICK), until - TICK):
        assert _answers(facts, moment) == _answers(facts, NOW)

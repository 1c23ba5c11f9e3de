"""Accepted work that is not settled yet: previews and decisions see the repository as it will be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cueloop_daemon.core.decide import decide
from cueloop_daemon.core.model import (
    OwedTask,
    QueueFile,
    QueueMissing,
    SessionCorrupt,
    SessionLoaded,
    SessionMissing,
    Snapshot,
    Unusable,
)
from cueloop_daemon.core.request import PREVIEW, run_request
from cueloop_daemon.core.selection import next_task, row_of
from cueloop_daemon.core.settled import settled
from decision_world import ETAG, NOW, loaded, queue, snapshot, task

OWED = (OwedTask("RQ-0001", ETAG),)


def owing(facts: Snapshot, *owed: OwedTask) -> Snapshot:
    return replace(facts, owed=owed or OWED)


def test_without_anything_owed_it_is_the_same_snapshot() -> None:
    facts = snapshot(loaded())
    assert settled(facts) is facts


def test_a_finished_task_is_no_interrupted_one() -> None:
    facts = snapshot(loaded())
    before, after = decide(facts, PREVIEW, NOW), decide(owing(facts), PREVIEW, NOW)
    assert before is not None
    assert before.reason == "session_valid"
    assert after is None
    announced = decide(owing(facts), run_request("one", resume=True), NOW)
    assert announced is not None
    assert announced.reason == "no_session"


def test_queue_and_done_file_are_as_they_will_be() -> None:
    tasks = queue(task(1, "doing"), task(2, depends_on=["RQ-0001"]))
    facts = settled(owing(snapshot(loaded(), tasks)))
    assert isinstance(facts.queue, QueueFile)
    assert isinstance(facts.done, QueueFile)
    assert [row.id for row in facts.queue.rows] == ["RQ-0002"]
    found = row_of(facts.done, "RQ-0001")
    assert found is not None
    assert found.status == "done"
    chosen = next_task(facts.queue, facts.done, NOW)
    assert chosen is not None
    assert chosen.id == "RQ-0002"
    assert facts.owed == ()


@pytest.mark.parametrize("status", ["todo", "draft"])
def test_a_task_that_a_person_set_back_is_left_as_it_is(status: str) -> None:
    facts = settled(owing(snapshot(loaded(), queue(task(1, status)))))
    assert isinstance(facts.queue, QueueFile)
    assert [row.status for row in facts.queue.rows] == [status]


@pytest.mark.parametrize("status", ["done", "rejected"])
def test_what_the_agent_made_of_it_stands(status: str) -> None:
    facts = settled(owing(snapshot(loaded(), queue(task(1, status)), done=queue(task(9, "done")))))
    assert isinstance(facts.queue, QueueFile)
    assert isinstance(facts.done, QueueFile)
    assert facts.queue.rows == ()
    assert [(row.id, row.status) for row in facts.done.rows] == [("RQ-0009", "done"), ("RQ-0001", status)]


def test_a_session_that_somebody_else_wrote_stays() -> None:
    other = SessionLoaded(loaded().session, "another etag")
    assert settled(owing(snapshot(other))).session == other
    foreign = loaded(task_id="RQ-0002")
    assert settled(owing(snapshot(foreign))).session == foreign
    corrupt = SessionCorrupt("torn", ETAG)
    assert settled(owing(snapshot(corrupt))).session == corrupt
    assert settled(owing(snapshot(loaded()))).session == SessionMissing()


def test_files_that_cannot_be_read_stay_what_they_are() -> None:
    unusable = Unusable("queue_corrupted", "m", "d", "p")
    facts = owing(snapshot(loaded(), unusable))
    assert settled(facts) is facts
    missing = QueueMissing("/repo/.cueloop/queue.jsonc")
    assert settled(owing(snapshot(loaded(), missing))).queue == missing
    assert settled(owing(snapshot(loaded(), done=unusable))).done == unusable

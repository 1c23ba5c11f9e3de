"""Power cuts in each phase of a run and between acceptance, publishing and clearing; the lock's pid is another process's afterwards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from faults.runs_reboots import Reboots
from faults.runs_world import kind_of, kinds, session_of

PHASES = ("plan", "implement", "review")
ACCEPTED = (
    "accepted result",
    "complete/done acted",
    "complete/publish/commit intent",
    "complete/publish/commit acted",
    "complete/clear acted",
    "complete/settled acted",
)
"""Places from the acceptance to the clearing of the session, each after another thing that a person could see. A played machine is cut
off at all of them (`runs/program/test_reboots.py`)."""


@pytest.fixture(scope="module")
def reboots() -> Iterator[Reboots]:
    made = Reboots()
    try:
        yield made
    finally:
        made.faults.close()


@pytest.mark.parametrize("phase", PHASES)
def test_in_each_phase_the_run_is_over_and_the_session_leads_back_to_it(reboots: Reboots, phase: str) -> None:
    record = reboots.cut_off_in(phase)
    task_id, number = reboots.task_id(), PHASES.index(phase) + 1
    assert record["summary"]["outcome"] == "failed"
    assert "interrupted" in record["error"]["message"]
    assert not reboots.faults.world.repository.lock.exists()
    session = session_of(reboots.faults)
    assert (session["task_id"], session["current_phase"], session["iterations_completed"]) == (task_id, number, 0)
    assert reboots.faults.stage.statuses()[0][task_id] == "doing"
    notes = reboots.resumed()
    assert notes[-1]["summary"]["outcome"] == "ran", notes
    assert reboots.calls_of(task_id) == {one: 2 if one == phase else 1 for one in PHASES}
    assert (reboots.faults.stage.statuses()[1][task_id], reboots.commits_of(task_id)) == ("done", 1)
    assert session_of(reboots.faults) is None


def test_a_shim_s_record_that_was_lost_leaves_no_lock_in_the_way_f02(reboots: Reboots) -> None:
    record = reboots.cut_off_in("implement", loses_record=True)
    task_id = reboots.task_id()
    assert record["summary"]["outcome"] == "failed"
    assert reboots.resumed()[-1]["summary"]["outcome"] == "ran"
    assert reboots.calls_of(task_id) == {"plan": 1, "implement": 2, "review": 1}
    assert (reboots.faults.stage.statuses()[1][task_id], reboots.commits_of(task_id)) == ("done", 1)
    assert not reboots.faults.world.repository.lock.exists()


def test_after_the_acceptance_the_next_run_finishes_what_is_owed_and_no_more(reboots: Reboots) -> None:
    whole = reboots.whole()
    for name in ACCEPTED:
        record = reboots.cut_off_at(whole.places.index(name))
        task_id = reboots.task_id()
        assert record["summary"]["outcome"] == "failed", name
        queued, done = reboots.faults.stage.statuses()
        assert task_id in queued or task_id in done, name
        notes = reboots.next_task()
        assert notes[-1]["summary"]["outcome"] == "ran", f"{name}: {notes}"
        after = kinds(notes)
        owed = [
            note for note in notes if kind_of(note) == "warning" and f"task {task_id} was accepted" in note["event"]["message"]
        ]
        assert len(owed) == (name != "complete/settled acted"), name
        assert after.count("task_selected") == 1, name
        for one in (task_id, reboots.task_id()):
            assert reboots.calls_of(one) == dict.fromkeys(PHASES, 1), name
            queued, done = reboots.faults.stage.statuses()
            assert (one in queued, done.get(one), reboots.commits_of(one)) == (False, "done", 1), name
        assert session_of(reboots.faults) is None, name

"""What a run does first, once it holds the queue lock."""

from __future__ import annotations

from datetime import timedelta

import pytest

from cueloop_daemon.core.model import QueueMissing, SessionCorrupt, SessionFile, SessionTooNew, Snapshot, Unusable
from cueloop_daemon.core.request import Answer, Request, UnderLock, run_request
from cueloop_daemon.core.runs.beginning import BEGINNING, Bad, Chosen, Nothing, Refused, Wish, begin
from decision_world import ETAG, NOW, STAMP, loaded, queue, snapshot, task

LATER = "2999-01-01T00:00:00Z"
BROKEN = Unusable("queue_corrupted", "The queue is broken.", "Line 1.", "/repo/.cueloop/queue.jsonc")


def begun(facts: Snapshot, *, is_first: bool = True, **request: object) -> Refused | Bad | Nothing | Chosen:
    asked = run_request("one", **request)  # type: ignore[arg-type]  # its own names
    return begin(facts, Wish(asked, is_first), NOW)


@pytest.mark.parametrize(
    ("facts", "code", "said"),
    [
        (snapshot(settings=Unusable("config_incompatible", "m", None, "p")), "config_incompatible", "m"),
        (snapshot(tasks=BROKEN), "queue_corrupted", "The queue is broken."),
        (snapshot(done=BROKEN), "queue_corrupted", "The queue is broken."),
        (snapshot(tasks=QueueMissing("/repo/q")), "queue_corrupted", "There is no queue file at /repo/q."),
        (snapshot(tasks=queue(task(1), task(1))), "queue_corrupted", "is not valid: The id RQ-0001"),
        (snapshot(tasks=queue(task(1)), done=queue(task(1, "done"))), "queue_corrupted", "in the queue and in the done file"),
    ],
)
def test_a_document_that_cannot_be_used(facts: Snapshot, code: str, said: str) -> None:
    found = begun(facts)
    assert isinstance(found, Bad)
    assert found.code == code
    assert said in found.message


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("RQ-0009", "There is no task RQ-0009 in the queue."),
        (" RQ-0009 ", "There is no task RQ-0009 in the queue."),
        ("rq-0001", "There is no task rq-0001 in the queue."),
        ("RQ-0008", "Task RQ-0008 is in the done file already."),
        ("RQ-0002", "Task RQ-0002 is done already."),
        ("RQ-0003", "Task RQ-0003 is rejected already."),
        ("RQ-0004", "Task RQ-0004 is a draft; make it ready first, or give --include-draft."),
        ("RQ-0005", "Task RQ-0005 is a group, which is not work that can be run."),
        ("RQ-0006", f"Task RQ-0006 is scheduled for {LATER}."),
        ("RQ-0007", "Task RQ-0007 waits for RQ-0001, RQ-0004."),
    ],
)
def test_a_task_that_cannot_be_run_is_said_in_one_sentence(name: str, said: str) -> None:
    tasks = queue(
        task(1),
        task(2, "done"),
        task(3, "rejected"),
        task(4, "draft"),
        task(5, kind="group"),
        task(6, scheduled_start=LATER),
        task(7, depends_on=["RQ-0001", "RQ-0002", "RQ-0004"]),
    )
    found = begun(snapshot(tasks=tasks, done=queue(task(8, "done"))), task_id=name)
    assert isinstance(found, Bad)
    assert (found.code, found.message, found.decision) == ("unknown", said, None)


@pytest.mark.parametrize(("name", "drafts"), [("RQ-0001", False), ("RQ-0002", False), ("RQ-0003", True)])
def test_a_task_that_was_asked_for(name: str, drafts: bool) -> None:
    """One that is `doing` already needs nothing more."""
    facts = snapshot(tasks=queue(task(1), task(2, "doing", depends_on=["RQ-0001"]), task(3, "draft")))
    found = begun(facts, task_id=f" {name} ", include_draft=drafts)
    assert isinstance(found, Chosen)
    assert (found.task_id, found.title, found.session) == (name, f"Task {int(name[3:])}", None)


@pytest.mark.parametrize(
    ("file", "request_", "status", "action", "seen"),
    [
        (None, {}, None, "NOTHING", None),
        (None, {"resume": True}, "falling_back_to_fresh_invocation", "NOTHING", None),
        (loaded(), {"resume": True}, "resuming_same_session", "KEEP", ETAG),
        (loaded(timedelta(hours=48)), {"answer": Answer("resume", ETAG)}, "resuming_same_session", "KEEP", ETAG),
        (loaded(), {"fresh": True}, "falling_back_to_fresh_invocation", "TO_HISTORY", ETAG),
        (loaded(task_id="RQ-0002"), {}, "falling_back_to_fresh_invocation", "TO_HISTORY", ETAG),
        (loaded(), {"task_id": "RQ-0002"}, "falling_back_to_fresh_invocation", "REPLACE", ETAG),
        (SessionCorrupt("torn", "e"), {"fresh": True}, "falling_back_to_fresh_invocation", "QUARANTINE", "e"),
    ],
)
def test_what_is_decided_about_the_file(
    file: SessionFile | None, request_: dict[str, object], status: str | None, action: str, seen: str | None
) -> None:
    found = begun(snapshot(file), **request_)
    assert isinstance(found, Chosen)
    assert (found.decision.status if found.decision else None, found.action, found.seen) == (status, action, seen)
    assert (found.session is not None) is (status == "resuming_same_session")
    assert BEGINNING.validate_json(BEGINNING.dump_json(found)) == found


@pytest.mark.parametrize(
    ("file", "request_", "declined"),
    [
        (loaded(), {"fresh": True}, True),
        (loaded(task_id=" RQ-0001 "), {"fresh": True}, True),
        (loaded(), {"answer": Answer("fresh", ETAG)}, True),
        (loaded(), {"fresh": True, "task_id": "RQ-0002"}, False),
        (loaded(), {"resume": True}, False),
        (SessionCorrupt("torn", "e"), {"fresh": True}, False),
        (None, {"fresh": True}, False),
    ],
)
def test_whose_changes_are_no_obstacle(file: SessionFile | None, request_: dict[str, object], declined: bool) -> None:
    found = begun(snapshot(file), **request_)
    assert isinstance(found, Chosen)
    assert found.declined_own is declined


@pytest.mark.parametrize("file", [loaded(), loaded(timedelta(hours=48)), SessionCorrupt("torn", "e"), SessionTooNew(2, "e")])
def test_a_refusal(file: SessionFile) -> None:
    found = begun(snapshot(file))
    assert isinstance(found, Refused)
    assert found.decision.status == "refusing_to_resume"
    assert BEGINNING.validate_json(BEGINNING.dump_json(found)) == found


def test_under_the_lock_another_state_of_things_is_said_so() -> None:
    asked = Request(mode="one", resume=True, under_lock=UnderLock("RQ-0001"))
    gone = begin(snapshot(loaded(), queue(task(2))), Wish(asked, True), NOW)
    assert isinstance(gone, Chosen)
    assert gone.decision is not None
    assert (gone.decision.reason, gone.task_id, gone.action) == ("resume_target_missing", "RQ-0002", "TO_HISTORY")
    over = begin(snapshot(loaded(), queue(task(1, "done"), task(2))), Wish(asked, True), NOW)
    assert isinstance(over, Chosen)
    assert over.decision is not None
    assert over.decision.reason == "resume_target_terminal"


@pytest.mark.parametrize(
    ("tasks", "kind"),
    [
        ((), "idle"),
        ((task(1, "draft"),), "idle"),
        ((task(1, "draft"), task(2, "done")), "idle"),
        ((task(1, depends_on=["RQ-0002"]), task(2, "draft")), "dependency_blocked"),
        ((task(1, scheduled_start=LATER),), "schedule_blocked"),
        ((task(1, depends_on=["RQ-0003"]), task(2, scheduled_start=LATER), task(3, "draft")), "mixed_queue"),
    ],
)
def test_nothing_to_run(tasks: tuple[dict[str, object], ...], kind: str) -> None:
    found = begun(snapshot(tasks=queue(*tasks)))
    assert isinstance(found, Nothing)
    assert found.blocking.reason.kind == kind
    assert BEGINNING.validate_json(BEGINNING.dump_json(found)) == found


def test_a_stale_session_with_nothing_to_run_is_still_decided_about() -> None:
    found = begun(snapshot(loaded(), queue(task(1, "done"))))
    assert isinstance(found, Nothing)
    assert found.decision is not None
    assert found.decision.reason == "session_stale"


def test_the_next_task_by_file_order() -> None:
    found = begun(snapshot(tasks=queue(task(1, priority="low"), task(2, priority="critical"), task(3, "doing"))))
    assert isinstance(found, Chosen)
    assert found.task_id == "RQ-0003"
    assert STAMP

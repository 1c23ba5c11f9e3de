"""The decision's table (design section 3), row by row and on its edges, and that a preview decides as a run does."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cueloop_daemon.core.decide import FileAction, Outcome, Question, decide, outcome
from cueloop_daemon.core.model import (
    QueueMissing,
    SessionCorrupt,
    SessionFile,
    SessionMissing,
    SessionTooLarge,
    SessionTooNew,
    SessionUnreadable,
    Snapshot,
    Unusable,
)
from cueloop_daemon.core.request import PREVIEW, Answer, Request, again_under_lock, run_request
from cueloop_protocol.documents.decision import Decision
from decision_world import ETAG, NOW, active_run, config, loaded, queue, snapshot, task

FRESH, RESUME, REFUSE = "falling_back_to_fresh_invocation", "resuming_same_session", "refusing_to_resume"
HOUR = timedelta(hours=1)
VALID = loaded(HOUR)
OLD = loaded(30 * HOUR)
UNDATED = loaded(last_updated_at="yesterday")
CORRUPT = SessionCorrupt("It is damaged.", ETAG)
LARGE = SessionTooLarge(2_000_000, ETAG)
NEW = SessionTooNew(2, ETAG)
LOCKED_AWAY = SessionUnreadable("Permission denied.")
YES = Answer("resume", ETAG)
NO = Answer("fresh", ETAG)
LATE_YES = Answer("resume", "another file")
LATE_NO = Answer("fresh", "another file")

SILENT = Request(resume=False)
ASKABLE = Request(resume=False, can_ask=True)
BOTH = Question(("resume", "fresh"), ETAG)
TABLE: list[tuple[str, SessionFile, Request, tuple[str, str, str | None] | None, FileAction, Question | None, bool]] = [
    ("missing", SessionMissing(), PREVIEW, None, FileAction.NOTHING, None, False),
    ("missing announced", SessionMissing(), run_request("resume"), (FRESH, "no_session", None), FileAction.NOTHING, None, False),
    ("missing answered", SessionMissing(), replace(SILENT, answer=YES), None, FileAction.NOTHING, None, True),
    ("valid --resume", VALID, PREVIEW, (RESUME, "session_valid", "RQ-0001"), FileAction.KEEP, None, False),
    ("valid silent", VALID, SILENT, (REFUSE, "resume_confirmation_required", "RQ-0001"), FileAction.LEAVE, None, False),
    ("valid askable", VALID, ASKABLE, (REFUSE, "resume_confirmation_required", "RQ-0001"), FileAction.LEAVE, BOTH, False),
    ("valid yes", VALID, replace(ASKABLE, answer=YES), (RESUME, "session_valid", "RQ-0001"), FileAction.KEEP, None, False),
    ("valid no", VALID, replace(ASKABLE, answer=NO), (FRESH, "session_declined", "RQ-0001"), FileAction.TO_HISTORY, None, False),
    ("valid --fresh", VALID, Request(fresh=True), (FRESH, "session_declined", "RQ-0001"), FileAction.TO_HISTORY, None, False),
    (
        "valid late yes",
        VALID,
        replace(SILENT, answer=LATE_YES),
        (REFUSE, "resume_confirmation_required", "RQ-0001"),
        FileAction.LEAVE,
        None,
        True,
    ),
    ("valid late no", VALID, Request(answer=LATE_NO), (RESUME, "session_valid", "RQ-0001"), FileAction.KEEP, None, True),
    (
        "valid other task",
        VALID,
        Request(task_id=" RQ-0002 "),
        (FRESH, "explicit_task_selection_overrides_session", "RQ-0001"),
        FileAction.REPLACE,
        None,
        False,
    ),
    (
        "timed out, other task",
        OLD,
        Request(resume=False, task_id="RQ-0002", can_ask=True),
        (FRESH, "explicit_task_selection_overrides_session", "RQ-0001"),
        FileAction.REPLACE,
        None,
        False,
    ),
    ("other task cannot run", VALID, Request(task_id="RQ-0404"), None, FileAction.KEEP, None, False),
    ("own task named", VALID, Request(task_id="RQ-0001"), (RESUME, "session_valid", "RQ-0001"), FileAction.KEEP, None, False),
    (
        "timed out --resume",
        OLD,
        PREVIEW,
        (REFUSE, "session_timed_out_requires_confirmation", "RQ-0001"),
        FileAction.LEAVE,
        None,
        False,
    ),
    (
        "timed out askable",
        OLD,
        replace(PREVIEW, can_ask=True),
        (REFUSE, "session_timed_out_requires_confirmation", "RQ-0001"),
        FileAction.LEAVE,
        BOTH,
        False,
    ),
    ("timed out yes", OLD, Request(answer=YES), (RESUME, "session_timed_out_confirmed", "RQ-0001"), FileAction.KEEP, None, False),
    ("timed out no", OLD, Request(answer=NO), (FRESH, "session_declined", "RQ-0001"), FileAction.TO_HISTORY, None, False),
    ("undated", UNDATED, PREVIEW, (REFUSE, "session_timed_out_requires_confirmation", "RQ-0001"), FileAction.LEAVE, None, False),
    (
        "undated yes",
        UNDATED,
        Request(answer=YES),
        (RESUME, "session_timed_out_confirmed", "RQ-0001"),
        FileAction.KEEP,
        None,
        False,
    ),
    ("corrupt", CORRUPT, PREVIEW, (REFUSE, "session_cache_corrupt", None), FileAction.LEAVE, None, False),
    (
        "corrupt askable",
        CORRUPT,
        ASKABLE,
        (REFUSE, "session_cache_corrupt", None),
        FileAction.LEAVE,
        Question(("fresh",), ETAG),
        False,
    ),
    ("corrupt yes", CORRUPT, Request(answer=YES), (REFUSE, "session_cache_corrupt", None), FileAction.LEAVE, None, False),
    ("corrupt no", CORRUPT, Request(answer=NO), (FRESH, "session_cache_corrupt", None), FileAction.QUARANTINE, None, False),
    ("corrupt late no", CORRUPT, Request(answer=LATE_NO), (REFUSE, "session_cache_corrupt", None), FileAction.LEAVE, None, True),
    ("corrupt --fresh", CORRUPT, Request(fresh=True), (FRESH, "session_cache_corrupt", None), FileAction.QUARANTINE, None, False),
    ("large --fresh", LARGE, Request(fresh=True), (REFUSE, "session_cache_corrupt", None), FileAction.LEAVE, None, False),
    ("large no", LARGE, Request(answer=NO), (REFUSE, "session_cache_corrupt", None), FileAction.LEAVE, None, False),
    ("large askable", LARGE, ASKABLE, (REFUSE, "session_cache_corrupt", None), FileAction.LEAVE, None, False),
    ("new late no", NEW, Request(answer=LATE_NO), (REFUSE, "session_cache_corrupt", None), FileAction.LEAVE, None, True),
    ("unreadable", LOCKED_AWAY, Request(fresh=True), (REFUSE, "session_cache_corrupt", None), FileAction.LEAVE, None, False),
    ("unreadable no", LOCKED_AWAY, Request(answer=NO), (REFUSE, "session_cache_corrupt", None), FileAction.LEAVE, None, True),
]


def _brief(decision: Decision | None) -> tuple[str, str, str | None] | None:
    return None if decision is None else (decision.status, decision.reason, decision.task_id)


@pytest.mark.parametrize(
    ("file", "request_", "brief", "action", "question", "void"), [r[1:] for r in TABLE], ids=[r[0] for r in TABLE]
)
def test_a27_the_table(
    file: SessionFile,
    request_: Request,
    brief: tuple[str, str, str | None] | None,
    action: FileAction,
    question: Question | None,
    void: bool,
) -> None:
    facts = snapshot(file)
    found = outcome(facts, request_, NOW)
    assert _brief(found.decision) == brief
    assert (found.action, found.question, found.answer_is_void) == (action, question, void)
    assert decide(facts, request_, NOW) == found.decision
    if found.decision is not None:
        assert found.decision.scope == "run_session"
        assert found.decision.message.startswith("Resume: ")
        assert found.decision.detail.endswith(".")


@pytest.mark.parametrize("status", ["draft", "todo", "done", "rejected"])
@pytest.mark.parametrize("file", [VALID, OLD, UNDATED], ids=["valid", "old", "undated"])
@pytest.mark.parametrize("request_", [PREVIEW, ASKABLE, Request(answer=NO), Request(task_id="RQ-0002")], ids=range(4))
def test_a_session_whose_task_is_not_doing_is_stale(status: str, file: SessionFile, request_: Request) -> None:
    facts = snapshot(file, queue(task(1, status), task(2)))
    found = outcome(facts, request_, NOW)
    assert _brief(found.decision) == (FRESH, "session_stale", None)
    assert (found.action, found.question) == (FileAction.TO_HISTORY, None)
    assert found.decision is not None
    assert f"status {status}" in found.decision.detail


@pytest.mark.parametrize(
    ("tasks", "why"),
    [
        (queue(), "no longer in the queue"),
        (queue(task(1, "doing", kind="group")), "a group"),
        (queue(task(1, "doing", id="rq-0001")), "no longer in the queue"),
        (queue(task(1, "done"), task(1, "doing")), "status done"),
    ],
    ids=["gone", "group", "other case", "first of two counts"],
)
def test_a17_a_session_without_its_task_is_stale(tasks: object, why: str) -> None:
    assert isinstance(tasks, type(queue()))
    decision = decide(snapshot(VALID, tasks), PREVIEW, NOW)
    assert _brief(decision) == (FRESH, "session_stale", None)
    assert decision is not None
    assert why in decision.detail


@pytest.mark.parametrize(("queued", "saved"), [(" RQ-0001 ", "RQ-0001"), ("RQ-0001", "\tRQ-0001 ")])
def test_a17_ids_are_compared_trimmed(queued: str, saved: str) -> None:
    facts = snapshot(loaded(task_id=saved), queue(task(1, "doing", id=queued)))
    assert _brief(decide(facts, PREVIEW, NOW)) == (RESUME, "session_valid", "RQ-0001")


@pytest.mark.parametrize(
    ("age", "limit", "reason"),
    [
        (24 * HOUR, 24, "session_timed_out_requires_confirmation"),
        (24 * HOUR - timedelta(seconds=1), 24, "session_valid"),
        (24 * HOUR - timedelta(microseconds=1), 24, "session_valid"),
        (25 * HOUR, 24, "session_timed_out_requires_confirmation"),
        (HOUR, 1, "session_timed_out_requires_confirmation"),
        (HOUR - timedelta(seconds=1), 1, "session_valid"),
        (timedelta(0), 1, "session_valid"),
        (timedelta(minutes=-5), 1, "session_valid"),
        (timedelta(minutes=-5, microseconds=-1), 1, "session_timed_out_requires_confirmation"),
        (timedelta(hours=-25), 24, "session_timed_out_requires_confirmation"),
        (timedelta(days=300_000), 10_000_000, "session_valid"),
    ],
)
def test_a20_a21_a23_the_edge_of_the_limit(age: timedelta, limit: int, reason: str) -> None:
    facts = snapshot(loaded(age), settings=config(session_timeout_hours=limit))
    decision = decide(facts, PREVIEW, NOW)
    assert decision is not None
    assert decision.reason == reason
    assert " is -" not in decision.detail


def test_a20_a_future_stamp_is_told_as_such() -> None:
    decision = decide(snapshot(loaded(timedelta(hours=-25))), PREVIEW, NOW)
    assert decision is not None
    assert decision.message == "Resume: refusing to continue timed-out session RQ-0001 without explicit confirmation."
    assert '"2026-02-09T13:00:00.000000000Z" lies in the future.' in decision.detail


def test_a_huge_stamp_is_not_repeated_in_full() -> None:
    decision = decide(snapshot(loaded(last_updated_at="x" * 100_000)), PREVIEW, NOW)
    assert decision is not None
    assert len(decision.detail) < 300


def test_the_prescribed_sentences() -> None:
    valid = decide(snapshot(VALID), PREVIEW, NOW)
    assert valid is not None
    assert valid.message == "Resume: continuing the interrupted session for task RQ-0001."
    assert valid.detail == "Saved session is current and will resume from phase 2 with 1 completed loop task(s)."
    old = decide(snapshot(loaded(48 * HOUR)), PREVIEW, NOW)
    assert old is not None
    assert old.message == "Resume: refusing to continue timed-out session RQ-0001 without explicit confirmation."
    assert old.detail == "The saved session is 48 hour(s) old, exceeding the configured 24-hour safety threshold."


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (CORRUPT, ["It is damaged.", "--fresh"]),
        (LARGE, ["2000000 bytes", "session clear"]),
        (NEW, ["version 2", "session clear"]),
        (LOCKED_AWAY, ["Permission denied.", "access"]),
    ],
    ids=["corrupt", "large", "new", "unreadable"],
)
def test_a32_a33_a_file_that_cannot_be_used_is_told_with_its_reason(file: SessionFile, words: list[str]) -> None:
    decision = decide(snapshot(file), PREVIEW, NOW)
    assert decision is not None
    for word in words:
        assert word in decision.detail


@pytest.mark.parametrize("tasks", [QueueMissing("/q"), Unusable("queue_corrupted", "m", None, "/q")], ids=["missing", "unusable"])
@pytest.mark.parametrize("file", [SessionMissing(), VALID, CORRUPT], ids=["missing", "valid", "corrupt"])
def test_without_a_queue_there_is_no_decision(tasks: QueueMissing | Unusable, file: SessionFile) -> None:
    assert outcome(snapshot(file, tasks), run_request("resume"), NOW) == Outcome(None, FileAction.LEAVE)


def test_without_a_configuration_there_is_no_decision() -> None:
    broken = Unusable("config_incompatible", "m", None, "/c")
    assert decide(snapshot(VALID, settings=broken), PREVIEW, NOW) is None


@pytest.mark.parametrize("file", [SessionMissing(), VALID, OLD, CORRUPT, LOCKED_AWAY], ids=range(5))
@pytest.mark.parametrize("first", [None, decide(snapshot(VALID), PREVIEW, NOW)], ids=["none", "resumed"])
def test_while_a_run_is_active_the_preview_is_what_it_started_with(file: SessionFile, first: Decision | None) -> None:
    facts = snapshot(file, run=active_run(first))
    assert outcome(facts, PREVIEW, NOW) == Outcome(first, FileAction.KEEP)


LOCKED = again_under_lock(run_request("one", resume=True, can_ask=True), decide(snapshot(VALID), PREVIEW, NOW))


@pytest.mark.parametrize(
    ("tasks", "reason"),
    [
        (queue(task(1, "doing")), "session_valid"),
        (queue(task(2)), "resume_target_missing"),
        (queue(task(1, "done")), "resume_target_terminal"),
        (queue(task(1, "rejected")), "resume_target_terminal"),
        (queue(task(1, "todo")), "session_stale"),
        (queue(task(1, "draft")), "session_stale"),
        (queue(task(1, "done", kind="group")), "session_stale"),
    ],
    ids=["there", "gone", "done", "rejected", "todo", "draft", "group"],
)
def test_the_task_is_looked_at_again_under_the_lock(tasks: object, reason: str) -> None:
    assert isinstance(tasks, type(queue()))
    found = outcome(snapshot(VALID, tasks, run=active_run(None)), LOCKED, NOW)
    assert found.decision is not None
    assert found.decision.reason == reason
    assert found.decision.task_id == (None if reason == "session_stale" else "RQ-0001")
    assert found.action == (FileAction.KEEP if reason == "session_valid" else FileAction.TO_HISTORY)


def test_under_the_lock_nobody_is_asked_and_the_own_run_is_no_other() -> None:
    found = outcome(snapshot(OLD, run=active_run(None)), LOCKED, NOW)
    assert _brief(found.decision) == (REFUSE, "session_timed_out_requires_confirmation", "RQ-0001")
    assert found.question is None


@pytest.mark.parametrize(
    "first", [None, decide(snapshot(OLD), PREVIEW, NOW), decide(snapshot(CORRUPT), Request(fresh=True), NOW)]
)
def test_only_a_resumed_task_can_be_missing_under_the_lock(first: Decision | None) -> None:
    again = again_under_lock(run_request("one"), first)
    assert _brief(decide(snapshot(VALID, queue()), again, NOW)) == (FRESH, "session_stale", None)


def test_another_session_under_the_lock_is_judged_by_itself() -> None:
    facts = snapshot(loaded(task_id="RQ-0002"), queue(task(1, "done"), task(2, "done")))
    assert _brief(decide(facts, LOCKED, NOW)) == (FRESH, "session_stale", None)


def test_run_resume_is_run_loop_with_resume() -> None:
    assert run_request("resume") == replace(run_request("loop", resume=True), mode="resume")
    assert run_request("one").announce_missing is False
    assert run_request("one", resume=True).announce_missing is True


FILES: list[SessionFile] = [SessionMissing(), VALID, OLD, UNDATED, CORRUPT, LARGE, NEW, LOCKED_AWAY]
QUEUES = [queue(*tasks) for tasks in ([], [task(1, "doing"), task(2)], [task(1)], [task(1, "done"), task(2, "draft")])]
REQUESTS = st.builds(
    Request,
    mode=st.sampled_from(["one", "loop", "resume"]),
    resume=st.booleans(),
    fresh=st.booleans(),
    task_id=st.sampled_from([None, "RQ-0001", "RQ-0002", "RQ-0404", ""]),
    include_draft=st.booleans(),
    announce_missing=st.booleans(),
    can_ask=st.booleans(),
    answer=st.sampled_from([None, YES, NO, LATE_YES, LATE_NO]),
)
FACTS: list[Snapshot] = [snapshot(file, tasks) for file, tasks in product(FILES, QUEUES)]


@given(st.sampled_from(FACTS), REQUESTS)
def test_a_preview_and_a_run_with_equal_inputs_decide_equally(facts: Snapshot, request_: Request) -> None:
    """The run decides without the lock, then again under it while it is itself the active run; nothing changed in between."""
    previewed = decide(facts, replace(request_, mode="one"), NOW)
    started = outcome(facts, request_, NOW)
    under_lock = outcome(
        replace(facts, active_run=active_run(started.decision)), again_under_lock(request_, started.decision), NOW
    )
    assert previewed == started.decision
    if started.question is None:
        assert under_lock.decision == started.decision
        assert under_lock.action == started.action
    assert under_lock.question is None


@given(st.sampled_from(FACTS), REQUESTS)
def test_the_file_is_only_moved_by_a_fresh_start(facts: Snapshot, request_: Request) -> None:
    found = outcome(facts, request_, NOW)
    moves = found.action in (FileAction.TO_HISTORY, FileAction.QUARANTINE, FileAction.REPLACE)
    assert not moves or (found.decision is not None and found.decision.status == FRESH)
    if found.question is not None:
        assert found.decision is not None
        assert found.decision.status == REFUSE
        assert request_.can_ask


def test_an_answer_is_void_only_where_it_was_about_another_file() -> None:
    """Not where nothing is decided: nobody is told then that the file has changed."""
    running = snapshot(VALID, run=active_run(None))
    unusable = snapshot(VALID, settings=Unusable("config_incompatible", "no", "no", "p"))
    for facts in (running, unusable):
        assert not outcome(facts, replace(SILENT, answer=YES), NOW).answer_is_void


@pytest.mark.parametrize(("status", "reason"), [("done", "explicit_task_selection_overrides_session"), ("doing", None)])
def test_a_dependency_of_the_task_that_was_asked_for_may_be_in_the_done_file(status: str, reason: str | None) -> None:
    """With it the task can be run, and overrides the session; without it there is no decision, and the session stays."""
    tasks = queue(task(1, "doing"), task(2, depends_on=["RQ-0009"]))
    found = outcome(snapshot(VALID, tasks, done=queue(task(9, status))), Request(resume=False, task_id="RQ-0002"), NOW)
    assert (None if found.decision is None else found.decision.reason) == reason
    assert found.action is (FileAction.KEEP if reason is None else FileAction.REPLACE)

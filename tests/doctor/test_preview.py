"""The preview in words: the headings of "Troubleshooting" in session-management, made executable."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from cueloop_daemon.runs.db import RunsPlace, open_runs
from cueloop_daemon.store.atomic import Author
from cueloop_daemon.store.history import History, Note
from cueloop_daemon.store.system import System
from cueloop_protocol.documents.doctor import DoctorPreview
from doctor.faults_runs import _active
from doctor.lab import Lab, laboratory
from support.repository import git, queue, session, task

WOULD = {"cueloop run one": 0, "cueloop run loop": 1, "cueloop run resume": 2}
SETTINGS = {"runner": "pi", "phase_overrides": {f"phase{n}": {"runner": "pi", "model": None} for n in (1, 2, 3)}}


@pytest.fixture
def lab() -> Iterator[Lab]:
    with laboratory() as lab:
        yield lab


def seen(lab: Lab) -> DoctorPreview:
    return lab.visit().preview


def would(preview: DoctorPreview) -> list[str]:
    assert [run.command for run in preview.next] == list(WOULD)
    return [run.would for run in preview.next]


def ways(preview: DoctorPreview) -> dict[str, str]:
    return {way.name: way.command for way in preview.ways}


class TestNothingToExplain:
    def test_no_session(self, lab: Lab) -> None:
        preview = seen(lab)
        assert preview.words == ("There is no interrupted session.",)
        assert would(preview) == ["fresh", "fresh", "fresh"]
        assert [run.reason for run in preview.next] == [None, None, "no_session"]
        assert {run.task_id for run in preview.next} == {"RQ-0001"}
        assert ways(preview) == {}

    def test_a_current_session(self, lab: Lab) -> None:
        lab.repository.session.write_bytes(session(timedelta(minutes=61)))
        preview = seen(lab)
        assert preview.words[0] == "A session of task RQ-0001 was interrupted 1 hour 1 minute ago."
        assert "phase 2 (implement), with 1 of 2 iterations done by claude with the model sonnet" in preview.words[1]
        assert would(preview) == ["ask", "ask", "resume"]
        settings = {"phase1_settings": {"runner": "pi", "model": "x"}, "phase2_settings": {"runner": "codex", "model": "gpt-5.4"}}
        lab.repository.session.write_bytes(session(timedelta(minutes=61), **settings))
        assert seen(lab).words[1].endswith("iterations done by codex with the model gpt-5.4.")
        assert (preview.session, preview.task_id) == ("loaded", "RQ-0001")
        assert ways(preview) == {
            "resume": "cueloop run resume",
            "fresh": "cueloop run one --fresh",
            "leave": "cueloop session show",
            "clear": "cueloop session clear",
        }

    def test_a_run_at_work(self, lab: Lab) -> None:
        lab.repository.session.write_bytes(session())
        _active(lab)
        preview = seen(lab)
        assert preview.words[0].startswith("Run r1 (loop) is running here: task RQ-0001, phase implement")
        assert would(preview) == ["wait", "wait", "wait"]
        assert ways(preview) == {}

    def test_another_tool_at_work(self, lab: Lab) -> None:
        lab.repository.session.write_bytes(session())
        lab.repository.take_lock("run loop", lab.child())
        preview = seen(lab)
        assert preview.words[0].startswith("Another tool is at work here: run loop")
        assert would(preview) == ["wait", "wait", "wait"]


class TestCueLoopStartedFreshInsteadOfResuming:
    """Common causes: the task is gone, terminal, another was selected, the session was stale."""

    @pytest.mark.parametrize(
        ("tasks", "why"),
        [
            ((task(2, "todo"),), "is no longer in the queue"),
            ((task(1, "done", completed_at="2026-02-07T10:00:00Z"), task(2, "todo")), "has the status done"),
            ((task(1, "rejected", completed_at="2026-02-07T10:00:00Z"), task(2, "todo")), "has the status rejected"),
        ],
    )
    def test_it_will(self, lab: Lab, tasks: tuple[dict[str, object], ...], why: str) -> None:
        lab.repository.queue.write_bytes(queue(*tasks))
        lab.repository.session.write_bytes(session())
        preview = seen(lab)
        assert would(preview) == ["fresh", "fresh", "fresh"]
        assert {run.reason for run in preview.next} == {"session_stale"}
        assert all(why in str(run.detail) and "It takes task RQ-0002" in str(run.detail) for run in preview.next)
        assert "resume" not in ways(preview)

    @pytest.mark.parametrize(
        ("why", "told"),
        [
            ("session_stale", "was not in the queue any more"),
            ("resume_target_terminal", "was done or rejected when"),
            ("explicit_task_selection_overrides_session", "another task was named"),
            ("session_declined", "somebody chose to start fresh"),
            ("cleared", "cueloop session clear"),
        ],
    )
    def test_it_did(self, lab: Lab, why: str, told: str) -> None:
        lab.repository.session.write_bytes(session())
        history = History(lab.root, System(), Author(1, "1"), lab.uid)
        history.take(str(lab.repository.session), Note(datetime.now(UTC) - timedelta(hours=2), why, "e", "RQ-0001"))
        words = seen(lab).words
        assert words[0] == "There is no interrupted session."
        assert "of task RQ-0001 left its place 2 hours" in words[1]
        assert told in words[1]
        assert "history/00000001.jsonc" in words[1]


class TestCueLoopRefusedToResume:
    """Common causes: nobody could be asked; the session timed out. And a file that nobody can use."""

    def test_nobody_could_be_asked(self, lab: Lab) -> None:
        lab.repository.session.write_bytes(session())
        preview = seen(lab)
        assert preview.next[0].would == "ask"
        assert preview.next[0].reason == "resume_confirmation_required"
        assert "--resume to continue it, or with --fresh" in str(preview.next[0].detail)

    def test_it_timed_out(self, lab: Lab) -> None:
        lab.repository.session.write_bytes(session(timedelta(hours=48)))
        preview = seen(lab)
        assert would(preview) == ["ask", "ask", "ask"]
        assert {run.reason for run in preview.next} == {"session_timed_out_requires_confirmation"}
        assert preview.next[0].detail == "The saved session is 48 hour(s) old, exceeding the configured 24-hour safety threshold."
        assert ways(preview)["resume"] == "cueloop run one"

    def test_it_is_damaged(self, lab: Lab) -> None:
        lab.repository.session.write_bytes(b"{")
        preview = seen(lab)
        assert would(preview) == ["ask", "ask", "ask"]
        assert ways(preview) == {
            "fresh": "cueloop run one --fresh",
            "leave": "cueloop session show",
            "clear": "cueloop session clear",
        }

    def test_it_is_too_new(self, lab: Lab) -> None:
        lab.repository.session.write_bytes(session(version=3))
        preview = seen(lab)
        assert would(preview) == ["refuse", "refuse", "refuse"]
        assert set(ways(preview)) == {"leave", "clear"}


class TestRunnerContinueFellBackToFresh:
    """Common causes: the runner rejected its session's id; none was known."""

    @pytest.mark.parametrize(
        ("state", "told"),
        [
            (None, "No conversation of pi is on record"),
            ("gone", "pi does not know"),
            ("reported", "is on record, and is gone on with"),
        ],
    )
    def test_what_is_known_of_the_conversation(self, lab: Lab, state: str | None, told: str) -> None:
        lab.configure(agent=SETTINGS)
        data = session()
        lab.repository.session.write_bytes(data)
        lab.repository.ours.mkdir(0o700)
        record = open_runs(RunsPlace(str(lab.repository.ours / "runs.db"), lambda: None))
        place = ("RQ-0001", "550e8400-e29b-41d4-a716-446655440000", 2, 2, "pi")
        if state is not None:
            record.write(lambda db: db.execute("INSERT INTO conversations VALUES (?,?,?,?,?,'{}',?,'[]',NULL)", (*place, state)))
        record.close()
        assert any(told in sentence for sentence in seen(lab).words)


class TestTheStart:
    def test_a_tree_that_is_not_clean(self, lab: Lab) -> None:
        (lab.repository.path / "new.py").write_text("")
        preview = seen(lab)
        assert would(preview) == ["fail", "fail", "fail"]
        assert "not committed" in preview.next[0].message
        git(lab.repository.path, "add", "-A")
        git(lab.repository.path, "commit", "-qm", "it")
        assert would(seen(lab)) == ["fresh", "fresh", "fresh"]

    def test_changes_are_no_obstacle_to_going_on(self, lab: Lab) -> None:
        lab.repository.session.write_bytes(session())
        (lab.repository.path / "new.py").write_text("")
        assert would(seen(lab)) == ["ask", "ask", "resume"]

    def test_nothing_to_run(self, lab: Lab) -> None:
        lab.repository.queue.write_bytes(queue(task(1, "draft")))
        preview = seen(lab)
        assert would(preview) == ["idle", "idle", "idle"]
        assert preview.next[0].message == "Idle: the queue has no todo task."

    def test_no_repository(self, lab: Lab) -> None:
        shutil.rmtree(lab.repository.folder)
        preview = seen(lab)
        assert would(preview) == ["fail", "fail", "fail"]
        assert "cueloop init" in str(preview.next[0].detail)

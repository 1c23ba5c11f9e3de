"""Questions of runs over real processes: answered once whoever asks and whoever dies."""

from __future__ import annotations

from faults.runs_questions import OLD, Asked, ask_to_run, both_answer, etag_asked_for
from faults.runs_world import make
from support.repository import session, task

CONFIRMATION_STALE = -32003


def test_of_two_answers_in_one_moment_one_is_the_run_and_the_other_is_told_which() -> None:
    assert both_answer(12).total() == 12


def test_an_answer_for_a_session_that_has_changed_does_nothing() -> None:
    faults = make("work()", (task(1, "doing"),))
    try:
        faults.start()
        repository = faults.world.repository
        repository.put(repository.session, session(OLD))
        old = etag_asked_for(faults)
        theirs = session(OLD, iterations_completed=0)
        repository.put(repository.session, theirs)
        for choice in ("resume", "fresh"):
            with faults.served.connect() as wire:
                error = ask_to_run(faults, wire, answer={"choice": choice, "session_etag": old})["error"]
                assert error["code"] == CONFIRMATION_STALE
                assert error["data"]["session_etag"] == etag_asked_for(faults) != old
                assert wire.call("run.list", limit=5)["runs"] == []
        assert repository.session.read_bytes() == theirs
        assert faults.stage.calls() == []
    finally:
        faults.close()


def test_a_question_survives_its_client_and_its_daemon_and_is_answered_once() -> None:
    assert Asked(6, seed=5).all().total() == 6

"""Whether a run may start: the preview's decision, and what stands against it. Pure."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cueloop_daemon.core.decide import decide
from cueloop_daemon.core.model import QueueMissing, SessionCorrupt, SessionTooNew, Unusable
from cueloop_daemon.core.request import Answer, run_request
from cueloop_daemon.runs.starting import digest_of, may_start
from cueloop_protocol import codes
from cueloop_protocol.codes import RpcError
from cueloop_protocol.params import RunStartParams
from decision_world import ETAG, NOW, loaded, queue, snapshot, task


def asked(**fields: object) -> RunStartParams:
    return RunStartParams.model_validate({"mode": "one", **fields})


def refusal(facts: object, params: RunStartParams) -> RpcError:
    with pytest.raises(RpcError) as caught:
        may_start(facts, params, NOW)  # type: ignore[arg-type]  # a Snapshot; the table below has them all
    return caught.value


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        (snapshot(settings=Unusable("config_incompatible", "m", "d", "p")), "config_incompatible"),
        (snapshot(tasks=Unusable("queue_corrupted", "m", "d", "p")), "queue_corrupted"),
        (snapshot(done=Unusable("permission_denied", "m", "d", "p")), "permission_denied"),
        (snapshot(tasks=QueueMissing("/repo/.cueloop/queue.jsonc")), "queue_corrupted"),
    ],
)
def test_documents_that_cannot_be_used_are_errors_before_the_run(facts: object, word: str) -> None:
    error = refusal(facts, asked())
    assert (error.code, error.document["code"]) == (codes.DOCUMENT_UNUSABLE, word)


def test_a_valid_session_asks_whom_it_can() -> None:
    error = refusal(snapshot(loaded()), asked(interactive=True))
    assert (error.code, error.data["choices"], error.data["session_etag"]) == (
        codes.CONFIRMATION_REQUIRED,
        ["resume", "fresh"],
        ETAG,
    )
    assert error.data["decision"]["reason"] == "resume_confirmation_required"
    assert {"task_id", "age_seconds", "current_phase", "iterations_completed", "runner"} <= set(error.data["session"])


def test_a_corrupt_session_is_asked_about_without_anything_to_show() -> None:
    error = refusal(snapshot(SessionCorrupt("it is torn", ETAG)), asked(interactive=True))
    assert (error.code, error.data["choices"]) == (codes.CONFIRMATION_REQUIRED, ["fresh"])
    assert "session" not in error.data


@pytest.mark.parametrize(
    ("file", "fields", "reason"),
    [
        (None, {}, None),
        (None, {"resume": True}, "no_session"),
        (loaded(), {}, "resume_confirmation_required"),
        (loaded(), {"resume": True}, "session_valid"),
        (loaded(timedelta(hours=30)), {"resume": True}, "session_timed_out_requires_confirmation"),
        (loaded(), {"fresh": True}, "session_declined"),
        (loaded(), {"task_id": "RQ-0002"}, "explicit_task_selection_overrides_session"),
        (SessionTooNew(9, ETAG), {"interactive": True}, "session_cache_corrupt"),
    ],
)
def test_without_anybody_to_ask_the_table_decides_and_refusals_are_the_runs_to_tell(
    file: object, fields: dict[str, object], reason: str | None
) -> None:
    found = may_start(snapshot(file), asked(**fields), NOW)  # type: ignore[arg-type]  # a SessionFile
    assert (None if found.decision is None else found.decision.reason) == reason


def test_an_answer_about_another_file_is_stale() -> None:
    error = refusal(snapshot(loaded()), asked(answer={"choice": "fresh", "session_etag": "old"}))
    assert (error.code, error.data["session_etag"]) == (codes.CONFIRMATION_STALE, ETAG)


@given(
    resume=st.booleans(),
    mode=st.sampled_from(["one", "loop", "resume"]),
    hours=st.integers(0, 60),
    answer=st.sampled_from([None, "resume", "fresh"]),
)
def test_the_decision_is_the_previews(resume: bool, mode: str, hours: int, answer: str | None) -> None:
    given_ = {} if answer is None else {"answer": {"choice": answer, "session_etag": ETAG}}
    params = RunStartParams.model_validate({"mode": mode, "resume": resume, **given_})
    facts = snapshot(loaded(timedelta(hours=hours)), queue(task(1, "doing"), task(2)))
    choice = None if answer is None else Answer("resume" if answer == "resume" else "fresh", ETAG)
    request = run_request(params.mode, resume=resume, answer=choice)
    assert may_start(facts, params, NOW).decision == decide(facts, request, NOW)


def test_a_key_stands_for_the_request_and_not_for_its_environment() -> None:
    one = asked(env={"A": "1"}, idempotency_key="k")
    assert digest_of(one) == digest_of(asked(env={"A": "2"}, idempotency_key="other"))
    assert digest_of(one) != digest_of(asked(force=True))

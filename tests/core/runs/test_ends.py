"""How runs end (contract section 7)."""

from __future__ import annotations

import pytest

from cueloop_daemon.core import blocked
from cueloop_daemon.core.runs import ends
from cueloop_protocol.documents.decision import Decision
from decision_world import STAMP

REFUSAL = Decision(
    status="refusing_to_resume",
    scope="run_session",
    reason="resume_confirmation_required",
    task_id="RQ-0001",
    message="Resume: refusing.",
    detail="Choose.",
)


def test_a_refusal_is_repeated_word_for_word() -> None:
    state = ends.refused(REFUSAL, STAMP)
    assert (state.status, state.reason.kind, state.task_id) == ("stalled", "runner_recovery", "RQ-0001")
    assert (state.message, state.detail) == (REFUSAL.message, REFUSAL.detail)
    assert state.reason.model_dump(exclude_none=True) == {
        "kind": "runner_recovery",
        "scope": "run_session",
        "reason": "resume_confirmation_required",
        "task_id": "RQ-0001",
    }


def test_exit_codes_of_refusals() -> None:
    assert (ends.exit_of_refusal("one"), ends.exit_of_refusal("loop")) == (1, 0)


@pytest.mark.parametrize(
    ("label", "pid", "since", "said"),
    [
        ("run loop", 4711, STAMP, f"held by run loop, pid 4711, since {STAMP}."),
        (None, None, None, "held by another tool."),
        (None, 4711, None, "held by another tool, pid 4711."),
    ],
)
def test_a_lock_that_is_held(label: str | None, pid: int | None, since: str | None, said: str) -> None:
    state = ends.lock_blocked("/repo/.cueloop/lock", label, pid, since, STAMP)
    assert state.message.endswith(said)
    assert "queue lock" in state.message
    assert (state.status, state.reason.kind) == ("stalled", "lock_blocked")
    assert ("remove the folder /repo/.cueloop/lock" in (state.detail or "")) is (pid is None)


@pytest.mark.parametrize(("code", "said"), [(3, "failed with exit code 3"), (None, "did not come to an end")])
def test_a_gate_that_failed(code: int | None, said: str) -> None:
    state = ends.ci_blocked("RQ-0001", "make ci", code, "identical_failures", STAMP)
    assert said in state.message
    assert "make ci" in (state.detail or "")
    given = {"kind": "ci_blocked", "pattern": "identical_failures", **({} if code is None else {"exit_code": code})}
    assert state.reason.model_dump(exclude_none=True) == given


@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        (blocked.idle(STAMP), "no_candidates"),
        (blocked.by_dependencies(2, STAMP), "blocked"),
        (blocked.by_schedule(1, STAMP, 60, STAMP), "blocked"),
        (blocked.mixed(1, 1, STAMP), "blocked"),
    ],
)
def test_the_outcome_of_finding_nothing(state: object, outcome: str) -> None:
    assert ends.outcome_of(state) == outcome  # type: ignore[arg-type]  # blocking states


def test_errors_have_codes_of_the_closed_list() -> None:
    made = ends.error("resource_busy", "m", "d")
    assert (made.code, made.message, made.detail, made.retryable) == ("resource_busy", "m", "d", True)
    assert ends.error("unknown", "m").detail is None
    with pytest.raises(ValueError, match="oops"):
        ends.error("oops", "m")

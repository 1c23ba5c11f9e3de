"""What is tried again, how often, and after how long."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cueloop_daemon.core.runs.repeat import (
    LIMIT_HOLD,
    MOST_SIGNALS,
    SAME_GATES,
    Seen,
    Tally,
    Verdict,
    fingerprint,
    hold_seconds,
    is_hard,
    is_stuck,
    most_attempts,
    next_move,
)
from cueloop_protocol.documents.config import RunnerRetry

UNSET: dict[str, None] = dict.fromkeys(RunnerRetry.model_fields)


def retry(**given: object) -> RunnerRetry:
    return RunnerRetry.model_validate({**UNSET, **given})


@pytest.mark.parametrize(
    ("seen", "tally", "move", "after"),
    [
        (Seen("succeeded"), Tally(2, 3, 1), "done", Tally(2, 3, 1)),
        (Seen("gone", was_continued=True), Tally(), "begin_anew", Tally()),
        (Seen("gone"), Tally(), "give_up", Tally()),
        (Seen("idle"), Tally(), "go_on", Tally(idle=1)),
        (Seen("idle"), Tally(idle=1), "give_up", Tally(idle=1)),
        (Seen("killed"), Tally(signals=MOST_SIGNALS - 1), "go_on", Tally(signals=MOST_SIGNALS)),
        (Seen("killed"), Tally(signals=MOST_SIGNALS), "give_up", Tally(signals=MOST_SIGNALS)),
        (Seen("failed", is_retryable=True), Tally(), "try_again", Tally(1)),
        (Seen("failed", is_retryable=True), Tally(1), "try_again", Tally(2)),
        (Seen("failed", is_retryable=True), Tally(2), "give_up", Tally(2)),
        (Seen("failed"), Tally(), "give_up", Tally()),
        # A limit that is only worded, not told by a field or a code, is waited for by nobody.
        (Seen("failed", is_limit=True), Tally(), "give_up", Tally()),
        (Seen("overrun"), Tally(), "give_up", Tally()),
        (Seen("stopped"), Tally(), "give_up", Tally()),
        (Seen("missing"), Tally(), "give_up", Tally()),
        (Seen("login"), Tally(), "give_up", Tally()),
        (Seen("unprompted"), Tally(), "give_up", Tally()),
    ],
)
def test_what_follows(seen: Seen, tally: Tally, move: str, after: Tally) -> None:
    assert next_move(seen, tally, 3) == (move, after)


@given(
    st.lists(st.builds(Seen, st.sampled_from(get_args(Verdict)), st.booleans(), st.booleans(), st.booleans())), st.integers(1, 9)
)
def test_every_talk_comes_to_an_end(story: list[Seen], attempts: int) -> None:
    """Whatever agents do: only a lost conversation costs nothing, and a fresh one is not lost."""
    tally, steps, was_continued = Tally(), 0, True
    for seen in story:
        move, tally = next_move(Seen(seen.verdict, was_continued, seen.is_retryable, seen.is_limit), tally, attempts)
        if move in ("done", "give_up"):
            return
        was_continued = move == "go_on" or (move == "try_again" and was_continued)
        steps += move != "begin_anew"
        assert steps <= (attempts - 1) + MOST_SIGNALS + 1


@pytest.mark.parametrize("verdict", get_args(Verdict))
def test_whose_work_is_in_question(verdict: Verdict) -> None:
    assert is_hard(Seen(verdict)) is (verdict in ("failed", "gone"))
    assert not is_hard(Seen(verdict, is_retryable=True))
    assert not is_hard(Seen(verdict, is_limit=True))


@pytest.mark.parametrize(("configured", "attempts"), [(None, 3), (0, 1), (1, 1), (7, 7)])
def test_how_often(configured: int | None, attempts: int) -> None:
    assert most_attempts(configured) == attempts


@pytest.mark.parametrize(
    ("failures", "share", "seconds"), [(1, 0.5, 1.0), (2, 0.5, 2.0), (3, 0.5, 4.0), (9, 0.5, 30.0), (1, 0.0, 0.8), (1, 1.0, 1.2)]
)
def test_how_long_as_runners_md_has_it(failures: int, share: float, seconds: float) -> None:
    """min(1 s · 2ⁿ⁻¹, 30 s) ± 20 %."""
    assert hold_seconds(retry(), failures, share, is_limit=False) == pytest.approx(seconds)


def test_how_long_as_configured() -> None:
    given = retry(base_backoff_ms=10, multiplier=3.0, max_backoff_ms=50, jitter_ratio=0.0)
    assert [hold_seconds(given, n, 0.9, is_limit=False) for n in (1, 2, 3)] == pytest.approx([0.01, 0.03, 0.05])


def test_a14_a_usage_limit_is_never_tried_in_a_tight_loop() -> None:
    assert hold_seconds(retry(base_backoff_ms=1, max_backoff_ms=1), 1, 0.5, is_limit=True) == LIMIT_HOLD


@given(st.integers(1, 10**6), st.floats(0, 1), st.floats(1, 1e300), st.floats(0, 1), st.booleans())
def test_any_configuration_gives_a_time(failures: int, share: float, factor: float, jitter: float, is_limit: bool) -> None:
    given = retry(multiplier=factor, jitter_ratio=jitter)
    assert 0 <= hold_seconds(given, failures, share, is_limit=is_limit) <= 2 * LIMIT_HOLD


def test_failures_of_a_gate_are_told_apart() -> None:
    assert fingerprint(1, "a") == fingerprint(1, "a")
    assert (
        len({fingerprint(1, "a"), fingerprint(2, "a"), fingerprint(1, "b"), fingerprint(None, "a"), fingerprint(1, "\ud800")})
        == 5
    )


@pytest.mark.parametrize(
    ("seen", "stuck"),
    [
        ((), False),
        (("a", "a"), False),
        (("a",) * SAME_GATES, True),
        (("a", "a", "b"), False),
        (("a", "b", "b", "b"), True),
        (("b", "b", "b", "a"), False),
    ],
)
def test_three_identical_failures_in_a_row(seen: str, stuck: bool) -> None:
    assert is_stuck(tuple(seen)) is stuck

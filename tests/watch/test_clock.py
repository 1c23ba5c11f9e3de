"""What happened to the time between two readings."""

from __future__ import annotations

import time
from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cueloop_daemon.watch.clock import ClockJump, Reading, SystemClock, jumps, read

START = Reading(1_000_000.0, 500.0, 800.0)

CASES = [
    ("nothing", (2.0, 2.0, 2.0), ()),
    ("late under load", (6.9, 6.9, 6.9), ()),
    ("just below a set", (2.49, 2.0, 2.0), ()),
    ("a second forward", (3.0, 2.0, 2.0), (("set", 1.0),)),
    ("set forward by an hour", (3602.0, 2.0, 2.0), (("set", 3600.0),)),
    ("A23: set back by an hour", (-3598.0, 2.0, 2.0), (("set", -3600.0),)),
    ("D29: eight hours of sleep", (28802.0, 2.0, 28802.0), (("sleep", 28800.0),)),
    ("D29: stopped for a minute", (62.0, 62.0, 62.0), (("stop", 60.0),)),
    ("exactly a stop", (7.0, 7.0, 7.0), (("stop", 5.0),)),
    ("slept, and set on waking", (100.0, 2.0, 62.0), (("set", 38.0), ("sleep", 60.0))),
    ("stopped, and set meanwhile", (3662.0, 62.0, 62.0), (("set", 3600.0), ("stop", 60.0))),
]


@pytest.mark.parametrize(("passed", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_each_cause_is_told_once(passed: tuple[float, float, float], expected: tuple[tuple[str, float], ...]) -> None:
    after = Reading(START.wall + passed[0], START.awake + passed[1], START.always + passed[2])
    found = jumps(START, after, 2.0)
    assert [(jump.kind, round(jump.seconds, 3)) for jump in found] == list(expected)


@given(passed=st.floats(0, 6.5), planned=st.floats(2, 10))
def test_time_that_passes_alike_on_all_clocks_is_no_jump(passed: float, planned: float) -> None:
    assert jumps(START, Reading(START.wall + passed, START.awake + passed, START.always + passed), planned) == ()


@given(step=st.floats(-(10**9), 10**9).filter(lambda step: abs(step) > 0.6))
def test_any_step_of_the_wall_clock_is_a_set(step: float) -> None:
    (jump,) = jumps(START, Reading(START.wall + 2 + step, START.awake + 2, START.always + 2), 2.0)
    assert jump == ClockJump(pytest.approx(step, abs=1e-3), "set")  # type: ignore[arg-type]


def test_the_machine_s_clocks() -> None:
    clock = SystemClock()
    before = time.time()
    reading = read(clock)
    assert before <= reading.wall <= time.time()
    assert clock.now().tzinfo is UTC
    assert reading.awake <= clock.monotonic()
    assert reading.always <= clock.boottime()
    assert reading.always >= reading.awake - 0.001

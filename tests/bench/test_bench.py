"""The benchmarks run and say what they measured. No figure is judged here: that would test the machine."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TOP = Path(__file__).resolve().parent.parent.parent

FIGURES = {
    "config_resolve_warm",
    "cpu_config_resolve",
    "cpu_config_resolve_alone",
    "cpu_ping",
    "cpu_ping_alone",
    "ping_round_trip",
    "change_to_event_p50",
    "change_to_event_p95",
    "fan_out",
    "cold_command",
    "warm_command",
    "idle_wakeups",
    "idle_memory",
    "big_queue_unchanged",
    "big_queue_preview",
    "big_queue_stall",
    "run_overhead_cold",
    "run_overhead_warm",
    "shim_start",
    "run_output_time",
    "run_output_memory",
    "run_output_wait",
}


@pytest.fixture
def figure(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of figures; the benchmarks are no part of what is installed."""
    monkeypatch.syspath_prepend(TOP)
    return importlib.import_module("bench.figure")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "bench", *arguments], cwd=TOP, capture_output=True, text=True, timeout=120)


def test_every_figure_is_measured_and_printed_as_one_line_of_json_beside_its_floor() -> None:
    done = run("--quick")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert {line["name"] for line in lines} == FIGURES
    for line in lines:
        assert isinstance(line["ok"], bool)
        assert line["runs"], line
        assert len(line["runs"]) == len(line["floors"]), line
        assert line["target"] is not None or line["most_ratio"] is not None, line
        assert line["floor_is"], line


def test_a_name_that_is_no_benchmark_is_told_with_those_that_there_are() -> None:
    done = run("no_such")
    assert done.returncode == 2
    assert "there is no no_such" in done.stderr
    assert "big_queue" in done.stderr


@pytest.mark.parametrize(
    ("target", "most_ratio", "is_met"),
    [(3.0, None, True), (2.9, None, False), (None, 3.0, True), (None, 2.9, False), (3.0, 2.9, False), (2.9, 3.0, False)],
)
def test_a_figure_is_the_median_and_meets_both_bars(figure: Any, target: float, most_ratio: float, is_met: bool) -> None:
    made = figure.Figure("name", "ms", (1.0, 9.0, 3.0), target, (1.0, 0.5, 7.0), "the floor", most_ratio)
    assert (made.value, made.floor, made.ratio) == (3.0, 1.0, 3.0)
    assert made.is_met is is_met
    assert json.loads(made.to_line())["ok"] is is_met


def test_without_a_floor_there_is_no_ratio_to_meet(figure: Any) -> None:
    assert not figure.Figure("name", "ms", (1.0,), None, (), "", 2.0).is_met
    assert figure.Figure("name", "1/s", (1.0,), 5.0, (0.0,), "nothing").ratio is None


@pytest.mark.parametrize(("share", "value"), [(0.5, 10), (0.95, 19), (1.0, 20), (0.0, 1), (0.05, 1), (0.051, 2)])
def test_a_percentile_is_the_nearest_rank(figure: Any, share: float, value: int) -> None:
    assert figure.percentile(list(range(20, 0, -1)), share) == value


def test_value_and_floor_are_taken_in_turns_after_one_pair_that_is_thrown_away(figure: Any) -> None:
    taken: list[float] = []

    def take(by: float) -> float:
        taken.append(by)
        return len(taken) * 1.0

    assert figure.in_turns(2, lambda: take(1), lambda: take(2)) == ((3.0, 5.0), (4.0, 6.0))
    assert taken == [1, 2, 1, 2, 1, 2]

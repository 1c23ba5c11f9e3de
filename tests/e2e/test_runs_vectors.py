"""The conformance vectors of runs: a sample of them by real commands, daemons, shims and agents."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

from support.vectors import Case, cases, check, complaints

NAMES = ("run-one", "run-loop", "continue")
COMMAND = [sys.executable, "-P", "-m", "cueloop_client"]


def test_a_sample_of_the_vectors_of_runs() -> None:
    def judged(item: tuple[str, Case]) -> list[str]:
        name, case = item
        got = check.play(COMMAND, case, stop=True)
        return [f"{name} {case['id']}: {line}" for line in complaints(name, case, got)]

    sample = cases(*NAMES, every=10)
    assert len(sample) == 17
    with ThreadPoolExecutor(2) as pool:
        wrong = [line for lines in pool.map(judged, sample) for line in lines]
    assert wrong == []


def test_each_vector_of_a_run_is_known() -> None:
    assert {name: len(cases(name)) for name in NAMES} == {"run-one": 68, "run-loop": 64, "continue": 28}

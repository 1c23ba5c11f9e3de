"""SIGKILL at every place of a run's life: the next life repeats nothing, and every event is told once, in order."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("kill_driver.py")
TOLD = ["begun", "ordered", "ordered 0", "ordered 1", "ordered 2", "run.finished"]


class Driver:
    """Asks `kill_driver.py` for one trial after the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._trials = 0
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def trial(self, kill_at: int | None, backend: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._trials += 1
        job = {"folder": str(self._folder / f"t{self._trials}"), "kill_at": kill_at, "backend": backend}
        self.process.stdin.write(json.dumps(job) + "\n")
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(30)


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    driver = Driver(tmp_path)
    yield driver
    driver.close()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a24_killed_at_each_place_nothing_is_done_twice_and_each_event_is_told_once(driver: Driver, backend: str) -> None:
    whole = driver.trial(None, backend)
    assert (whole["code"], whole["told"], whole["orders"]) == (0, TOLD, 4)
    places = whole["names"]
    assert len(places) > 50  # of the journal, and around each thing that the outbox does
    assert {"flush after", "forget after", "publish after", "order intent", "order acted"} <= set(places)
    for place in range(len(places)):
        found = driver.trial(place, backend)
        about = f"killed at place {place}, {places[place]}: {found}"
        assert found["code"] == -signal.SIGKILL, about
        assert found["again"] == 0, about
        assert found["told"] == TOLD, about
        assert found["seqs"] == list(range(1, len(TOLD) + 1)), about
        assert found["epoch"] == "e1", about
        assert found["orders"] == 4, about
        assert len(found["asked"]) <= 5, about
        assert sum(line.endswith("False") for line in found["asked"]) <= 4, about

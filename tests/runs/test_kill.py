"""SIGKILL at every place of a run's life: the next life repeats nothing, and every event is told once, in order.

Run as `python test_kill.py` for every place on both backends.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("kill_driver.py")
MAY_BE_JOINED = ("flush after", "forget after")
"""What the outbox does once or more: the second time may not come."""
TOLD = ["begun", "ordered", "ordered 0", "ordered 1", "ordered 2", "run.finished"]


class Driver:
    """Asks `kill_driver.py` for one trial after the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._trials = 0
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def trial(self, kill_at: tuple[str, int] | None, backend: str) -> dict[str, Any]:
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


@pytest.mark.parametrize(("backend", "first"), [("asyncio", 0), ("trio", 1)])
def test_a24_killed_at_each_place_nothing_is_done_twice_and_each_event_is_told_once(
    driver: Driver, backend: str, first: int
) -> None:
    """Every other place on each backend."""
    assert kill_at_each(driver, backend, first, 2) > 15


def kill_at_each(driver: Driver, backend: str, first: int = 0, step: int = 1) -> int:
    """A trial for each `step`th place, and what must be true after it; how many lives were killed."""
    whole = driver.trial(None, backend)
    assert (whole["code"], whole["told"], whole["orders"]) == (0, TOLD, 4)
    names = whole["names"]
    assert len(names) > 50  # of the journal, and around each thing that the outbox does
    assert {"flush after", "forget after", "publish after", "order intent", "order acted"} <= set(names)
    killed = 0
    for place in telling(names)[first::step]:
        found = driver.trial(place, backend)
        about = f"killed at {place}: {found}"
        has_died = found["code"] == -signal.SIGKILL
        assert has_died or (found["code"] == 0 and place[0] in MAY_BE_JOINED and place[1] > 0), about
        assert found["again"] == 0, about
        assert found["told"] == TOLD, about
        assert found["seqs"] == list(range(1, len(TOLD) + 1)), about
        assert found["epoch"] == "e1", about
        assert found["orders"] == 4, about
        assert len(found["asked"]) <= 4 + has_died, about
        assert sum(line.endswith("False") for line in found["asked"]) <= 4, about
        killed += has_died
    return killed


def telling(names: list[str]) -> list[tuple[str, int]]:
    """Each place with how often its name came before; without those that nothing lies before: an entry's end was just passed."""
    return [
        (name, names[:number].count(name))
        for number, name in enumerate(names)
        if not (number and name.endswith(" before") and name != "publish before" and names[number - 1].endswith(" result"))
    ]


if __name__ == "__main__":
    for each in ("asyncio", "trio"):
        with TemporaryDirectory() as folder:
            one = Driver(Path(folder))
            print(each, "killed at", kill_at_each(one, each), "places", flush=True)
            one.close()

"""SIGKILL of the daemon at every place of a real run, one run for each place; the next daemon must carry it to the same end.

Run as `python runs_places.py` for three phases and for a loop as well, and for the ends of all entries; prints what was tried. With the
word `everywhere` those places are not left out that nothing happens before.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from faults.runs_world import kinds, make, no_shim_left, output, session_of
from support.repository import task
from support.runs import Fact

ACT = """
if PHASE != "plan":
    with open(f"work-{TASK}.txt", "a") as file:
        file.write(f"{PHASE} {os.environ['CUELOOP_RUN_ID']}\\n")
work(f"did {PHASE} of {TASK}\\n")
"""
"""Each call that may leaves a line in the tree, so that what was done twice is committed twice."""

GATE = '#!/bin/sh\necho "$CUELOOP_RUN_ID" >>"$(dirname "$0")/gates"\n'

OUTCOMES = {"one": "ran", "loop": "completed"}
"""Of a run that did all that it was to do."""


@dataclass(frozen=True)
class Shape:
    """A kind of run. `phases` of each task, `tasks` that one run does."""

    mode: str
    phases: int
    tasks: int = 1


@dataclass(frozen=True)
class Whole:
    """How a run goes that nobody kills: its places, and what is told."""

    places: list[str]
    kinds: list[str]


class Trials:
    """Runs of one shape in one repository, each with tasks of its own, each killed at one place. Daemons follow each other."""

    def __init__(self, shape: Shape, most: int) -> None:
        self.shape = shape
        count = most * shape.tasks
        self.faults = make(ACT, tuple(task(number, "todo") for number in range(1, count + 1)), phases=shape.phases)
        stage = self.faults.stage
        gate = stage.folder / "gate"
        gate.write_text(GATE)
        gate.chmod(0o755)
        stage.configure(phases=shape.phases, ci_gate={"enabled": True, "argv": [str(gate)]}, git_publish_mode="commit")
        repository = self.faults.world.repository.path
        subprocess.run(["git", "commit", "-qam", "configured"], cwd=repository, check=True)
        self._runs = 0
        self.faults.start()

    def whole(self) -> Whole:
        """A run that nobody kills."""
        before = len(self.faults.places())
        run = self._asked()
        notes = self.faults.heard(run)
        self._check(run, notes, "nobody killed it")
        return Whole(self.faults.places()[before:], kinds(notes))

    def killed_at(self, place: int, whole: Whole) -> None:
        """A run that is killed at this place, and carried on by the next daemon."""
        about = f"killed at place {place}, {whole.places[place]}"
        faults = self.faults
        faults.arm(place)
        told = self._ask()
        faults.has_died()
        self._check_at_death(about)
        faults.start()
        run = self._ask(again=True)
        assert run is not None, about
        assert told is None or told["run_id"] == run["run_id"], about
        notes = faults.heard(run)
        assert kinds(notes) == whole.kinds, f"{about}: {kinds(notes)} instead of {whole.kinds}: {notes}"
        self._check(run, notes, about)

    def _asked(self) -> Fact:
        run = self._ask()
        assert run is not None
        return run

    def _ask(self, *, again: bool = False) -> Fact | None:
        self._runs += not again
        options = {"task_id": self._ids()[0]} if self.shape.mode == "one" else {"max_tasks": self.shape.tasks}
        return self.faults.ask(self.shape.mode, f"run-{self._runs}", **options)

    def _ids(self) -> list[str]:
        last = self._runs * self.shape.tasks
        return [f"RQ-{number:04d}" for number in range(last - self.shape.tasks + 1, last + 1)]

    def _check_at_death(self, about: str) -> None:
        """No task is lost between the files, and the session says what is true."""
        queued, done = self.faults.stage.statuses()
        session = session_of(self.faults)
        for one in self._ids():
            assert one in queued or done.get(one) == "done", about
        if session is None:
            return
        one = session["task_id"]
        assert one in self._ids(), about
        assert queued.get(one) == "doing" or one in done, about
        calls = self._calls()
        for number, phase in self._numbered():
            if number < session["current_phase"]:
                assert calls[one, phase] == 1, f"{about}: the session is beyond {phase}"
            if number > session["current_phase"]:
                assert calls[one, phase] == 0, f"{about}: the session is before {phase}"
        assert session["iterations_completed"] <= calls[one, self._phases()[-1]], about

    def _check(self, run: Fact, notes: list[Fact], about: str) -> None:
        """The run did everything once, said everything once, and has left nothing."""
        stage = self.faults.stage
        no_shim_left(self.faults)
        assert notes[-1]["summary"]["outcome"] == OUTCOMES[self.shape.mode], f"{about}: {notes[-1]}"
        calls, queued, done = self._calls(), *stage.statuses()
        phases = self._phases()
        for one in self._ids():
            assert {phase: calls[one, phase] for phase in phases} == dict.fromkeys(phases, 1), about
            assert (queued.get(one), done.get(one)) == (None, "done"), about
            assert self._committed(one) == "".join(f"{phase} {run['run_id']}\n" for phase in phases if phase != "plan"), about
        gates = (stage.folder / "gates").read_text().split()
        assert gates.count(run["run_id"]) == self.shape.tasks, about
        wanted = "".join(f"did {phase} of {one}\n" for one in self._ids() for phase in phases)
        assert output(notes).split() == wanted.split(), about
        trailers = self._git("log", "--format=%(trailers:key=CueLoop-Task,valueonly)").split()
        assert [trailers.count(one) for one in self._ids()] == [1] * self.shape.tasks, about
        assert session_of(self.faults) is None, about
        assert not self.faults.world.repository.lock.exists(), about
        assert stage.processes() == [], about

    def _phases(self) -> tuple[str, ...]:
        return {1: ("single",), 2: ("plan", "implement"), 3: ("plan", "implement", "review")}[self.shape.phases]

    def _numbered(self) -> list[tuple[int, str]]:
        """As sessions count phases: working alone is the second."""
        return [(2, "single")] if self.shape.phases == 1 else list(enumerate(self._phases(), 1))

    def _calls(self) -> Counter[tuple[str, str]]:
        return Counter((call["task"], call["phase"]) for call in self.faults.stage.calls())

    def _committed(self, one: str) -> str:
        return self._git("show", f"HEAD:work-{one}.txt")

    def _git(self, *arguments: str) -> str:
        path = self.faults.world.repository.path
        return subprocess.run(["git", *arguments], cwd=path, check=True, capture_output=True, text=True).stdout


def everywhere(places: list[str]) -> list[int]:
    """All of them."""
    return list(range(len(places)))


def telling(places: list[str]) -> list[int]:
    """The places that differ from the one before them: between one entry's end and the next one's beginning nothing happens."""
    return [
        number
        for number, name in enumerate(places)
        if not (number and name.endswith(" before") and places[number - 1].endswith(" result"))
    ]


def apart(places: list[str]) -> list[int]:
    """The telling places that an act, an intent or a checkpoint lies between: of several ends of entries in a row, the last."""
    chosen = telling(places)
    ends = [places[number].endswith(" result") and not places[number].startswith("checkpoint/") for number in chosen]
    return [number for number, is_end, is_next in zip(chosen, ends, [*ends[1:], False], strict=True) if not (is_end and is_next)]


def kill_at_each(shape: Shape, choose: Callable[[list[str]], list[int]] = telling, at_once: int = 2) -> tuple[int, int]:
    """Play a run of this shape for each chosen place; how many were killed, and of how many places that there are."""
    trials = [Trials(shape, 400) for _ in range(at_once)]
    try:
        whole = trials[0].whole()
        wanted = choose(whole.places)

        def play(number: int) -> None:
            for place in wanted[number::at_once]:
                trials[number].killed_at(place, whole)

        with ThreadPoolExecutor(at_once) as pool:
            list(pool.map(play, range(at_once)))
        return len(wanted), len(whole.places)
    finally:
        for one in trials:
            one.faults.close()


if __name__ == "__main__":
    for shape in (Shape("loop", 2, tasks=2), Shape("one", 1), Shape("one", 3)):
        killed, there = kill_at_each(shape, everywhere if "everywhere" in sys.argv else telling)
        print(f"{shape}: killed at {killed} of {there} places", flush=True)

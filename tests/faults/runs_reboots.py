"""A power cut, as the next daemon finds it: nothing of the run lives, the boot is another, and the lock's pid is somebody else's.

The daemon kills itself at a chosen place of a run; shim and agents are killed at once; then a daemon starts that believes in another
boot. Its shims do so, too.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from faults.runs_places import ACT, Shape, Trials
from faults.runs_world import Faults
from support.runs import Fact, finished
from support.wire import wait_for

BLOCKING = """
block = HERE / "block"
if block.exists() and block.read_text() == PHASE:
    block.unlink()
    open(HERE / "blocked", "w").close()
    time.sleep(600)
"""
"""The next call in the phase that the file names works until it is killed."""


class Reboots(Trials):
    """Runs of three phases in one repository, some of them cut off."""

    def __init__(self) -> None:
        super().__init__(Shape("one", 3), 40)
        self.faults.stage.act(BLOCKING + ACT)
        self._boots = 0

    def cut_off_in(self, phase: str, *, loses_record: bool = False) -> Fact:
        """The next task's run is cut off while the agent works in this phase; its record, as the next boot's daemon settles it.

        `loses_record`: what the shim wrote down had not reached the disk.
        """
        folder = self.faults.stage.folder
        (folder / "blocked").unlink(missing_ok=True)
        (folder / "block").write_text(phase)
        run = self._asked()
        wait_for((folder / "blocked").exists, f"the agent in phase {phase}")
        self.faults.kill()
        return self._after_the_cut(run, loses_record=loses_record)

    def cut_off_at(self, place: int) -> Fact:
        """The next task's run is cut off at this place; its record, as the next boot's daemon settles it."""
        self.faults.arm(place)
        run = self._asked()
        self.faults.has_died()
        return self._after_the_cut(run)

    def task_id(self) -> str:
        """The task of the latest run."""
        return self._ids()[0]

    def calls_of(self, task_id: str) -> dict[str, int]:
        """How often the agent was called in each phase."""
        calls = self._calls()
        return {phase: calls[task_id, phase] for phase in self._phases()}

    def commits_of(self, task_id: str) -> int:
        """How often the work of a task was published."""
        return self._git("log", "--format=%(trailers:key=CueLoop-Task,valueonly)").split().count(task_id)

    def resumed(self) -> list[Fact]:
        """What a run says that goes on with the session."""
        return self._told(self.faults.ask("one", f"resumed-{self._boots}", resume=True))

    def next_task(self) -> list[Fact]:
        """What a run of the next task says."""
        return self._told(self._ask())

    def _told(self, run: Fact | None) -> list[Fact]:
        assert run is not None
        return self.faults.heard(run)

    def _after_the_cut(self, run: Fact, *, loses_record: bool = False) -> Fact:
        faults = self.faults
        for pid in [*faults.shims(), *faults.stage.processes()]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not faults.shims() and not faults.stage.processes(), "the power cut")
        if loses_record:
            (faults.world.repository.ours / "runs" / run["run_id"] / "shim.jsonl").write_bytes(bytes(65536))
        self._boots += 1
        faults.boot = f"boot-{self._boots}"
        with taken_by_another(faults):
            faults.start()
            with faults.served.connect() as wire:
                return finished(wire, run["run_id"])


@contextmanager
def taken_by_another(faults: Faults) -> Iterator[None]:
    """The number in the queue lock's owner file is that of a process that knows nothing of runs."""
    owner = faults.world.repository.lock / "owner"
    other = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    try:
        if owner.exists():
            _replace_pid(owner, other.pid)
            for record in (faults.world.repository.ours / "runs").glob("*/shim.jsonl"):
                _replace_pid_in_record(record, other.pid)
        yield
        assert other.poll() is None, "the other process was not touched"
    finally:
        assert other.stdin is not None
        other.stdin.close()
        other.wait(20)


def _replace_pid(owner: Path, pid: int) -> None:
    owner.write_text(re.sub(r"^pid: \d+", f"pid: {pid}", owner.read_text(), count=1))


def _replace_pid_in_record(record: Path, pid: int) -> None:
    """As it would stand there if the number had been given out again: the same in both."""
    data = record.read_bytes()
    record.write_bytes(re.sub(rb'"owner":"pid: \d+', f'"owner":"pid: {pid}'.encode(), data))

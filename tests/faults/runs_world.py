"""Worlds for faults of runs: daemons that die where they are told to, and what must be true of a run whatever happened to it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cueloop_daemon.shim.wire import STOPPED
from support.repository import git
from support.runs import Fact, Stage
from support.wire import SECONDS, Ended, Wire, wait_for
from support.world import Daemon, DidNotStart, World

LAUNCHER = Path(__file__).with_name("runs_daemon.py")


@dataclass
class Faults:
    """One repository and the daemons that serve it, one after the other."""

    world: World
    stage: Stage
    boot: str = ""
    """The boot in which the next daemon believes; empty: the real one."""
    daemon: Daemon | None = field(default=None)

    @property
    def served(self) -> Daemon:
        """The daemon that lives."""
        assert self.daemon is not None
        return self.daemon

    def start(self) -> Daemon:
        """A daemon that passes places. One that a client or a shim has started meanwhile makes way as a crash would let it."""
        while True:
            try:
                return self._start()
            except DidNotStart as exc:
                if not exc.said.get("owned"):
                    raise
                with suppress(ProcessLookupError):
                    os.kill(exc.said["owned"]["pid"], signal.SIGKILL)

    def _start(self) -> Daemon:
        environ = {**self.world.environ, "TRIAL": str(self.stage.folder), "TRIAL_BOOT": self.boot}
        reading, writing = os.pipe()
        stderr = self.world.folder / "stderr-of-daemons"
        repository = str(self.world.repository.path)
        program = [sys.executable, "-P", str(LAUNCHER), "cueloop_daemon", str(self.world.home), "--root", repository]
        with stderr.open("ab") as errors:
            process = subprocess.Popen(
                [*program, "--ready-fd", str(writing)], stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, cwd="/",
                env=environ, pass_fds=(writing,), start_new_session=True,
            )  # fmt: skip
        os.close(writing)
        self.world._processes.append(process)
        with os.fdopen(reading, "rb") as pipe:
            assert select.select([pipe], [], [], 30)[0], "the daemon says nothing"
            line = pipe.readline()
        said: Fact = json.loads(line) if line else {}
        if "ready" not in said:
            raise DidNotStart(said, stderr.read_text(), process.wait(SECONDS))
        self.daemon = Daemon(process, said["ready"]["socket"], stderr)
        return self.daemon

    def arm(self, place: int) -> None:
        """The next run kills its daemon at this place."""
        (self.stage.folder / "arm.new").write_text(str(place))
        (self.stage.folder / "arm.new").rename(self.stage.folder / "arm")

    def places(self) -> list[str]:
        """The names of all places that were passed, in order."""
        path = self.stage.folder / "places"
        return path.read_text().splitlines() if path.exists() else []

    def ask(self, mode: str, key: str, **params: object) -> Fact | None:
        """`run.start` with this key; None if the daemon died before it answered."""
        try:
            with self.served.connect() as wire:
                told: Fact = wire.call(
                    "run.start",
                    mode=mode,
                    env=self.world.environ,
                    caller=self.world.caller,
                    idempotency_key=key,
                    **params,
                )
                return told
        except (Ended, ConnectionError):
            return None

    def heard(self, run: Fact, seconds: float = 60) -> list[Fact]:
        """Everything that is told of a run, from before its first event to `run.finished`: the notifications' parameters."""
        with self.served.connect() as wire:
            wire.subscribe(run_id=run["run_id"], cursor=run["cursor"])
            return notes_until_finished(wire, run["run_id"], seconds)

    def has_died(self) -> None:
        """Return when the daemon is dead, by SIGKILL."""
        assert self.served.process.wait(SECONDS) == -signal.SIGKILL, self.served.stderr.read_text()

    def kill(self) -> None:
        """SIGKILL the daemon; no shim brings one back, so that the next one is the test's own."""
        (self.world.repository.path / STOPPED).touch()
        self.served.kill()

    def close(self) -> None:
        """End everything of this world."""
        for pid in [*self.shims(), *self.stage.processes()]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.world.close()

    def shims(self) -> list[int]:
        """The live shims of this repository."""
        folder = os.fsencode(self.world.repository.ours / "runs")
        return [pid for pid in _numbers() if _works_below(pid, folder)]


def make(act: str, tasks: tuple[Fact, ...], **agent: object) -> Faults:
    """A world with a stage. The caller closes it."""
    world = World.make()
    faults = Faults(world, Stage.make(world, act, tasks=tasks, **agent))
    for name, value in (("user.name", "t"), ("user.email", "t@example.com")):
        git(world.repository.path, "config", name, value)
    return faults


def notes_until_finished(wire: Wire, run_id: str, seconds: float = 60) -> list[Fact]:
    """What comes until the run is told to be over; a gap fails the test."""
    found: list[Fact] = []
    deadline = time.monotonic() + seconds
    while True:
        note = wire.note(deadline - time.monotonic())
        assert note["method"] != "gap", note
        if note["params"].get("run_id") == run_id:
            found.append({"method": note["method"], **note["params"]})
        if note["method"] == "run.finished" and note["params"]["run_id"] == run_id:
            return found


def kinds(notes: list[Fact]) -> list[str]:
    """The kinds of what was heard, without the agents' output, whose cut into pieces is the clock's."""
    return [kind for kind in map(kind_of, notes) if kind != "runner_output"]


def kind_of(note: Fact) -> str:
    """An event's kind, or the notification's method."""
    kind: str = note["event"]["kind"] if note["method"] == "event" else note["method"]
    return kind


def output(notes: list[Fact]) -> str:
    """The agents' output as it was told."""
    return "".join(note["event"]["payload"]["text"] for note in notes if kind_of(note) == "runner_output")


def no_shim_left(faults: Faults) -> None:
    """Shims leave soon after their run is told to be over."""
    wait_for(lambda: not faults.shims(), "the shims' end")


def session_of(faults: Faults) -> Any:
    """The session file's content; None without one."""
    try:
        return json.loads(faults.world.repository.session.read_bytes())
    except FileNotFoundError:
        return None


def _numbers() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _works_below(pid: int, folder: bytes) -> bool:
    """Whether it is a shim whose run's folder, which it holds open, lies there."""
    try:
        if b"cueloop_daemon.shim.boot" not in Path(f"/proc/{pid}/cmdline").read_bytes():
            return False
        return any(
            os.fsencode(os.readlink(f"/proc/{pid}/fd/{name}")).startswith(folder + b"/") for name in os.listdir(f"/proc/{pid}/fd")
        )
    except OSError:
        return False

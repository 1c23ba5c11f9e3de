"""SIGKILL of client, daemon, shim and agent at random moments of runs over real processes.

Run as `python runs_trials.py [TRIALS [SEED]]`; prints what was killed and how the runs ended. Each trial is one run of a task of its
own by a real client; afterwards nothing of it may be left, no agent may have been started twice, and its output must be there to the
byte, up to the shim's own death.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from faults.runs_world import Faults, make, no_shim_left
from support.repository import task
from support.runs import Fact
from support.wire import Ended, wait_for

ACT = """
def passed(moment):
    chosen = HERE / f"die-{TASK}"
    if chosen.exists() and chosen.read_text() == moment:
        chosen.unlink()
        os.kill(os.getpid(), 9)
passed("called")
busy = os.open(HERE / f"busy-{TASK}", os.O_WRONLY | os.O_CREAT)
try:
    fcntl.flock(busy, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    open(HERE / "double", "w").close()
kept = os.open(HERE / f"said-{TASK}-{NUMBER:06d}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
passed("silent")
def say_it(line):
    os.write(1, line)
    passed("printed")
    os.write(kept, line)
begin_line = json.dumps({"type": "system", "subtype": "init", "session_id": ID, "cwd": os.getcwd(), "tools": []})
say_it(begin_line.encode() + b"\\n")
passed("begun")
for number in range(60):
    words = f"{number} of {TASK} " + "x" * (number * 37 % 900)
    content = [{"type": "text", "text": words}]
    message = {"type": "assistant", "message": {"role": "assistant", "content": content}, "session_id": ID}
    say_it(json.dumps(message).encode() + b"\\n")
    time.sleep(0.004)
result = {"type": "result", "subtype": "success", "is_error": False, "num_turns": 1, "result": "done", "session_id": ID}
say_it(json.dumps(result).encode() + b"\\n")
passed("ended")
"""
"""Keeps what it has printed, each line after it was printed: what it keeps may be one line short, never more.

The first call of a task dies at the moment that the file `die-TASK` names, if there is one.
"""

FIRST = b'{"type": "system"'
"""How the output of each call begins."""

LIMIT = 30.0
"""Seconds for a client, and for a run."""
VICTIMS = ("client", "daemon", "shim", "agent")


@dataclass
class Trials:
    """One repository; `killed` and `ended` count what happened."""

    most: int
    seed: int
    killed: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.luck = random.Random(self.seed)
        self.faults: Faults = make(ACT, tuple(task(number, "todo") for number in range(1, self.most + 1)))
        self.faults.start()

    def all(self) -> Trials:
        """Every trial; each is checked."""
        try:
            for number in range(1, self.most + 1):
                self._trial(f"RQ-{number:04d}", f"trial {number} of seed {self.seed}")
            return self
        finally:
            self.faults.close()

    def dies(self, number: int, moment: str) -> list[Fact]:
        """A trial in which the agent kills itself at this moment of its first call, and nobody anything else; all its calls."""
        task_id = f"RQ-{number:04d}"
        (self.faults.stage.folder / f"die-{task_id}").write_text(moment)
        client = self._client(task_id)
        self._see_off(client, task_id, {"agent"}, f"killed when it had {moment}")
        return [call for _, call in self._calls(task_id)]

    def _trial(self, task_id: str, about: str) -> None:
        client = self._client(task_id)
        victims = self.luck.sample(VICTIMS, self.luck.choice((1, 1, 2, 3)))
        moments = sorted((self.luck.uniform(0, 0.6), victim) for victim in victims)
        if self.luck.random() < 0.85:  # else from the client's own beginning
            wait_for(lambda: bool(self.faults.shims()) or client.poll() is not None, "the shim")
        began, hit = time.monotonic(), set[str]()
        for at, victim in moments:
            time.sleep(max(0.0, began + at - time.monotonic()))
            if self._kill(victim, client):
                hit.add(victim)
                self.killed[victim] += 1
        self._see_off(client, task_id, hit, f"{about}, killed {sorted(hit)} of {moments}")

    def _client(self, task_id: str) -> subprocess.Popen[bytes]:
        return self.faults.world.spawn("machine", "run", "one", "--id", task_id)

    def _see_off(self, client: subprocess.Popen[bytes], task_id: str, hit: set[str], about: str) -> None:
        """Wait until all is over, and check it. `hit`: what was killed."""
        run = self._run_of(client, task_id)
        client.communicate(timeout=LIMIT)
        if run is not None:
            self._check(run, task_id, hit, about)
        no_shim_left(self.faults)
        assert self.faults.stage.processes() == [], about
        assert not self.faults.world.repository.lock.exists(), about
        self.faults.world.repository.session.unlink(missing_ok=True)

    def _kill(self, victim: str, client: subprocess.Popen[bytes]) -> bool:
        """Whether there was one to kill. A dead daemon's successor comes at once."""
        if victim == "daemon":
            self.faults.kill()
            self.faults.start()
            return True
        if victim == "client":
            was_there = client.poll() is None
            client.kill()
            return was_there
        pids = self.faults.shims() if victim == "shim" else self.faults.stage.processes()
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return bool(pids)

    def _run_of(self, client: subprocess.Popen[bytes], task_id: str) -> Fact | None:
        """The run's record when it is over; None if the client died before it had begun one."""
        until = time.monotonic() + LIMIT
        while time.monotonic() < until:
            is_done = client.poll() is not None
            with suppress(Ended, OSError), self.faults.served.connect() as wire:
                runs = wire.call("run.list", limit=1)["runs"]
                if runs and runs[0]["run_id"] not in self._known():
                    if runs[0]["state"] == "finished":
                        self._seen = runs[0]["run_id"]
                        record: Fact = runs[0]
                        return record
                elif is_done:
                    return None
            time.sleep(0.02)
        raise AssertionError(f"the run of {task_id} does not end")

    _seen: str = ""

    def _known(self) -> tuple[str, ...]:
        return (self._seen,)

    def _check(self, run: Fact, task_id: str, hit: set[str], about: str) -> None:
        calls = self._calls(task_id)
        assert not (self.faults.stage.folder / "double").exists(), f"{about}: two agents at once"
        assert len(calls) <= 1 + ("agent" in hit), f"{about}: started {len(calls)} times"
        if len(calls) > 1 and self._said_by(task_id, calls[0][0]).startswith(FIRST):
            assert "--resume" in calls[1][1]["argv"], f"{about}: a conversation that had begun was begun anew"
        queued, done = self.faults.stage.statuses()
        outcome = run["summary"]["outcome"]
        self.ended[outcome] += 1
        is_done = done.get(task_id) == "done"
        if "shim" in hit and outcome == "failed":  # what is accepted by then is owed, and the next run finishes it
            assert is_done or task_id in queued, about
        else:
            assert (is_done, task_id in queued) == (outcome == "ran", outcome != "ran"), f"{about}: {run}"
        assert outcome == "ran" or hit & {"shim", "agent", "client"}, f"{about}: {run}"
        self._check_output(run, task_id, "shim" in hit, about)

    def _check_output(self, run: Fact, task_id: str, shim_died: bool, about: str) -> None:
        kept, said = self._output(run["run_id"]), self._said(task_id)
        assert is_whole(kept, said, shim_died), f"{about}: {kept!r} instead of {said}"

    def _calls(self, task_id: str) -> list[tuple[int, Fact]]:
        """The task's calls of the agent, each with its number among all calls."""
        return [(number, call) for number, call in enumerate(self.faults.stage.calls(), 1) if call["task"] == task_id]

    def _said_by(self, task_id: str, number: int) -> bytes:
        """What this very call knows that it has printed; one that was killed early enough has not even begun to keep it."""
        path = self.faults.stage.folder / f"said-{task_id}-{number:06d}"
        return path.read_bytes() if path.exists() else b""

    def _said(self, task_id: str) -> list[bytes]:
        """What each call of the agent knows that it has printed."""
        return [path.read_bytes() for path in sorted(self.faults.stage.folder.glob(f"said-{task_id}-*"))] or [b""]

    def _output(self, run_id: str) -> bytes:
        offset, pieces = 0, list[str]()
        with self.faults.served.connect() as wire:
            while True:
                piece = wire.call("run.output", run_id=run_id, offset=offset, limit=65536)
                pieces.append(piece["text"])
                offset = piece["next_offset"]
                if piece["complete"] or not piece["text"]:
                    return "".join(pieces).encode()


def is_whole(kept: bytes, said: list[bytes], shim_died: bool) -> bool:
    """Whether the kept output is what the calls have said, one after the other, to the byte.

    A call that was killed may have printed one line more than it knows. What a dead shim did not read of the last call is lost.
    """
    if not said:
        return kept == b""
    one, *others = said
    if shim_died and not others and one.startswith(kept):
        return True
    if not kept.startswith(one):
        return False
    rest = kept[len(one) :]
    return is_whole(rest, others, shim_died) or is_whole(rest.partition(b"\n")[2], others, shim_died)


def main(argv: list[str]) -> None:
    most = int(argv[0]) if argv else 200
    done = Trials(most, int(argv[1]) if argv[1:] else 11).all()
    print(
        f"{most} trials; killed {dict(done.killed)}; runs ended {dict(done.ended)}; 0 orphans, 0 double starts, output complete"
    )


if __name__ == "__main__":
    main(sys.argv[1:])

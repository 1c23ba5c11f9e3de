"""Questions under fire, over real processes: two who answer at once, and askers that die.

Run as `python runs_questions.py` for 200 rounds of two clients that answer the same confirmation, and 100 questions in the middle of
a run whose asking client and daemon are killed. The suite has fewer of both.
"""

from __future__ import annotations

import os
import pty
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from faults.runs_world import Faults, kind_of, make, no_shim_left, notes_until_finished
from support.repository import queue, session, task
from support.runs import Fact, finished
from support.wire import Ended, Wire, wait_for

RUN_ACTIVE, CONFIRMATION_REQUIRED = -32004, -32002
OLD = timedelta(hours=30)
"""Older than a session may be without a person's word."""

STUCK = """
if sum(json.loads(line)["task"] == TASK for line in open(HERE / "calls.jsonl")) > 1:
    work()
else:
    begin()
    text("I am stuck")
    sys.exit(3)
"""
"""Fails, unless it is told to go on."""


def both_answer(rounds: int) -> Counter[str]:
    """Two clients answer the same confirmation in the same moment; how often which answer was the run's."""
    faults = make("work()", (task(1, "doing"),))
    found: Counter[str] = Counter()
    try:
        faults.start()
        for _ in range(rounds):
            found[_round(faults)] += 1
        assert len(faults.stage.calls()) == rounds
        return found
    finally:
        faults.close()


def _round(faults: Faults) -> str:
    repository = faults.world.repository
    repository.put(repository.queue, queue(task(1, "doing")))
    repository.put(repository.folder / "done.jsonc", b'{"version": 1, "tasks": []}')
    repository.put(repository.session, session(OLD))
    etag = etag_asked_for(faults)
    together = threading.Barrier(2)
    said: dict[str, Fact] = {}

    def answer(choice: str) -> None:
        with faults.served.connect() as wire:
            together.wait()
            said[choice] = ask_to_run(faults, wire, answer={"choice": choice, "session_etag": etag})

    threads = [threading.Thread(target=answer, args=(choice,)) for choice in ("resume", "fresh")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    (winner,) = [choice for choice, one in said.items() if "result" in one]
    (loser,) = [one["error"] for one in said.values() if "error" in one]
    run_id = said[winner]["result"]["run_id"]
    assert loser["code"] == RUN_ACTIVE, loser
    assert loser["data"]["run_id"] == run_id, loser
    with faults.served.connect() as wire:
        record = finished(wire, run_id)
        assert record["summary"]["outcome"] == "ran", record
        assert len(wire.call("run.list", limit=1)["runs"]) == 1
    no_shim_left(faults)
    return winner


def ask_to_run(faults: Faults, wire: Wire, **params: object) -> Fact:
    """`run.start` for a person; the whole answer."""
    world = faults.world
    return wire.ask("run.start", mode="one", resume=True, interactive=True, env=world.environ, caller=world.caller, **params)


def etag_asked_for(faults: Faults) -> str:
    """Of the session that a person is asked about."""
    with faults.served.connect() as wire:
        error = ask_to_run(faults, wire)["error"]
    assert error["code"] == CONFIRMATION_REQUIRED, error
    etag: str = error["data"]["session_etag"]
    return etag


@dataclass
class Asked:
    """Runs that ask in the middle, one for each trial, by a client on a terminal. `told`: what became of the answers."""

    most: int
    seed: int
    told: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.luck = random.Random(self.seed)
        tasks = tuple(task(number, "todo") for number in range(1, self.most + 1))
        self.faults = make(STUCK, tasks, git_revert_mode="ask")
        self.faults.start()

    def all(self) -> Counter[str]:
        """Every trial; what became of the answers."""
        try:
            for number in range(1, self.most + 1):
                self._trial(number)
            return self.told
        finally:
            self.faults.close()

    def _trial(self, number: int) -> None:
        task_id, luck, calls = f"RQ-{number:04d}", self.luck, len(self.faults.stage.calls())
        with self.faults.served.connect() as wire:
            cursor = wire.subscribe()["cursor"]
        client, terminal = self._client(task_id)
        try:
            run_id = self._run_of()
            victims = [("client", luck.uniform(0, 0.4)), ("daemon", luck.uniform(0, 0.6))]
            self._kill_all(client, sorted(victims, key=lambda one: one[1]))
            question = self._question(run_id)
            choice = self._answer(run_id, question)
            self._check(run_id, question, choice, cursor, calls)
        finally:
            client.kill()
            client.wait(20)
            os.close(terminal)
        self.faults.world.repository.session.unlink(missing_ok=True)

    def _client(self, task_id: str) -> tuple[subprocess.Popen[bytes], int]:
        """`cueloop run one` on a terminal, as a person types it."""
        ours, theirs = pty.openpty()
        argv = [sys.executable, "-P", "-m", "cueloop_client", "run", "one", "--id", task_id]
        world = self.faults.world
        client = subprocess.Popen(
            argv, stdin=theirs, stdout=theirs, stderr=theirs, cwd=world.repository.path, env={**world.environ, "TERM": "dumb"},
            start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        return client, ours

    def _run_of(self) -> str:
        """The run that the client starts."""
        found: list[str] = []

        def is_there() -> bool:
            with self.faults.served.connect() as wire:
                runs = wire.call("run.list", limit=1)["runs"]
            found[:] = [run["run_id"] for run in runs if run["state"] != "finished"]
            return bool(found)

        wait_for(is_there, "the client's run")
        return found[0]

    def _kill_all(self, client: subprocess.Popen[bytes], victims: list[tuple[str, float]]) -> None:
        began = time.monotonic()
        for victim, at in victims:
            time.sleep(max(0.0, began + at - time.monotonic()))
            if victim == "client":
                client.send_signal(signal.SIGKILL)
            else:
                self.faults.kill()
                self.faults.start()

    def _question(self, run_id: str) -> Fact:
        """The one question that stands, whoever comes."""
        found: list[Fact] = []

        def is_there() -> bool:
            with self.faults.served.connect() as wire:
                found[:] = wire.subscribe()["snapshot"]["questions"]
            return bool(found)

        wait_for(is_there, "the question")
        (question,) = found
        assert question["run_id"] == run_id
        return question

    def _answer(self, run_id: str, question: Fact) -> str:
        """Answer, in half of the trials while the daemon is being killed; the choice that counts."""
        choice, other = self.luck.sample(("keep", "continue"), 2)
        about = {"run_id": run_id, "question_id": question["question_id"]}
        answer = self._while_killed(about, choice) if self.luck.random() < 0.5 else self._call(about, choice)
        if answer is None:
            answer = self._call(about, other)
            assert answer is not None
            self.told["lost reply, answer kept" if not answer["first"] else "lost with its daemon"] += 1
            assert answer["choice"] == (other if answer["first"] else choice)
        else:
            self.told["answered"] += 1
            assert (answer["choice"], answer["first"]) == (choice, True)
        counted: str = answer["choice"]
        return counted

    def _while_killed(self, about: Fact, choice: str) -> Fact | None:
        killer = threading.Timer(self.luck.uniform(0, 0.012), self.faults.kill)
        killer.start()
        try:
            return self._call(about, choice)
        finally:
            killer.join()
            self.faults.start()

    def _call(self, about: Fact, choice: str) -> Fact | None:
        try:
            with self.faults.served.connect() as wire:
                answer: Fact = wire.call("run.answer", choice=choice, **about)
                return answer
        except (Ended, OSError):
            return None

    def _check(self, run_id: str, question: Fact, choice: str, cursor: str, calls: int) -> None:
        """Asked once, settled once, and the run does what was answered; who answers later is told so."""
        with self.faults.served.connect() as wire:
            wire.subscribe(run_id=run_id, cursor=cursor)
            notes = notes_until_finished(wire, run_id)
            late = wire.call("run.answer", run_id=run_id, question_id=question["question_id"], choice="revert")
        assert (late["choice"], late["first"]) == (choice, False)
        asked = [note["question"] for note in notes if kind_of(note) == "question"]
        settled = [note for note in notes if kind_of(note) == "question.resolved"]
        assert [one["question_id"] for one in asked] == [question["question_id"]]
        assert [(one["choice"], one["by"]) for one in settled] == [(choice, "answer")]
        outcome, called = {"keep": ("failed", 1), "continue": ("ran", 2)}[choice]
        assert notes[-1]["summary"]["outcome"] == outcome
        assert len(self.faults.stage.calls()) - calls == called
        no_shim_left(self.faults)


def main() -> None:
    rounds = both_answer(200)
    print("200 rounds of two answers to one confirmation: each one run, the other told which;", dict(rounds), flush=True)
    print("100 questions whose client and daemon were killed: asked once, answered once;", dict(Asked(100, 8).all()))


if __name__ == "__main__":
    main()

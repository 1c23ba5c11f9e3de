"""`run.cancel`: when it is answered, nothing of the run is left, whatever the agent does about signals."""

from __future__ import annotations

import json
import signal
import threading
import time
from typing import Any

import pytest

from cueloop_daemon.runs.program.child import GRACE
from support.runs import Stage, Told, finished, nothing_left, start
from support.wire import Refused, Wire, wait_for
from support.world import Daemon, World

DEAF = """
import signal
begin()
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
for generation in range(2):
    for _ in range(2):
        if os.fork() == 0:
            if os.fork() == 0 and generation:
                os.setsid()
            while True:
                time.sleep(60)
open(HERE / "deaf", "w").close()
while True:
    print("still here", flush=True)
    time.sleep(0.05)
"""
"""An agent that ignores what it can, with children and grandchildren that do the same, some of them in sessions of their own."""

OBEDIENT = "begin(); open(HERE / 'waits', 'w').close(); time.sleep(600)"


def _begun(stage: Stage, wire: Wire, name: str) -> str:
    run_id = start(wire, stage)
    wait_for((stage.folder / name).exists, "the agent's beginning")
    return run_id


def test_an_agent_that_ignores_signals_and_has_grandchildren_e04(world: World, daemon: Daemon, wire: Wire) -> None:
    stage = Stage.make(world, DEAF)
    with nothing_left(stage), daemon.connect() as heard:
        run_id = _begun(stage, wire, "deaf")
        wait_for(lambda: len(stage.processes()) == 9, "eight descendants")
        heard.subscribe(run_id=run_id, kinds=["warning"])
        began, emptied = time.monotonic(), list[float]()
        watching = threading.Thread(target=lambda: emptied.append(_seconds_until_empty(stage, began)))
        watching.start()
        heard.send(json.dumps({"jsonrpc": "2.0", "id": 7, "method": "run.cancel", "params": {"run_id": run_id}}).encode() + b"\n")
        answer = heard.answer(2 * GRACE + 5)
        assert stage.processes() == []
        watching.join()
        assert emptied[0] <= 2 * GRACE
        told = [note for note in heard.notes if note["method"] == "run.finished"]
        assert len(told) == 1, "the summary comes before the answer"
        assert told[0]["params"]["summary"] == answer["result"]["summary"]
        assert answer["result"]["summary"]["outcome"] == "stopped"
    assert stage.statuses() == ({"RQ-0001": "doing"}, {})
    assert world.repository.session.exists()
    assert not world.repository.lock.exists()


def _seconds_until_empty(stage: Stage, began: float) -> float:
    wait_for(lambda: not stage.processes(), "the group's end")
    return time.monotonic() - began


def test_twice_at_once_and_again_afterwards_e04(world: World, daemon: Daemon, wire: Wire) -> None:
    stage = Stage.make(world, OBEDIENT)
    with nothing_left(stage):
        run_id = _begun(stage, wire, "waits")
        answers: list[Any] = []

        def cancel() -> None:
            with daemon.connect() as other:
                answers.append(other.call("run.cancel", run_id=run_id)["summary"])

        callers = [threading.Thread(target=cancel) for _ in range(2)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        answers.append(wire.call("run.cancel", run_id=run_id)["summary"])
        assert [answer["outcome"] for answer in answers] == ["stopped"] * 3
        assert finished(wire, run_id)["summary"] == answers[0] == answers[1] == answers[2]


def test_at_once_after_the_start_e04(world: World, wire: Wire) -> None:
    stage = Stage.make(world, OBEDIENT)
    with nothing_left(stage):
        run_id = start(wire, stage)
        assert wire.call("run.cancel", run_id=run_id)["summary"]["outcome"] == "stopped"
        assert stage.processes() == []
    assert not world.repository.lock.exists()


def test_after_the_end_it_changes_nothing_e04(world: World, wire: Wire) -> None:
    stage = Stage.make(world)
    run_id = start(wire, stage)
    record = finished(wire, run_id)
    assert record["summary"]["outcome"] == "ran"
    assert wire.call("run.cancel", run_id=run_id)["summary"] == record["summary"]
    with pytest.raises(Refused) as refused:
        wire.call("run.cancel")
    assert refused.value.code == -32005


def test_the_app_s_way_sigterm_to_machine_run_is_a_cancel(world: World, daemon: Daemon) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        stage = Stage(world, world.folder / "agent") if (world.folder / "agent").exists() else Stage.make(world, OBEDIENT)
        (stage.folder / "waits").unlink(missing_ok=True)
        with nothing_left(stage):
            caller = world.spawn("machine", "run", "one", *(["--resume"] if number == signal.SIGTERM else []))
            wait_for((stage.folder / "waits").exists, "the agent's beginning")
            caller.send_signal(number)
            out, err = caller.communicate(timeout=20)
            told = Told.of(out, err, caller.returncode)
            assert (told.outcome, told.code) == ("stopped", 0)


def test_a_cancel_whose_caller_has_gone_is_done_all_the_same(world: World, daemon: Daemon, wire: Wire) -> None:
    """Who presses Ctrl-C three times at once does not wait for the answer; that the run is being cancelled was said."""
    stage = Stage.make(world, OBEDIENT)
    with nothing_left(stage):
        run_id = _begun(stage, wire, "waits")
        with daemon.connect() as gone:
            gone.send(
                json.dumps({"jsonrpc": "2.0", "id": 7, "method": "run.cancel", "params": {"run_id": run_id}}).encode() + b"\n"
            )
        assert finished(wire, run_id)["summary"]["outcome"] == "stopped"

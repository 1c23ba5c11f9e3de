"""A daemon that goes, in any way, leaves its run alone; the next one goes on with it, and no lock stands in its way."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from cueloop_protocol.identity import process_start_time
from faults.runs_world import Faults, kinds, make, notes_until_finished, output
from support.repository import task
from support.runs import Fact, Told
from support.wire import Ended, Wire, wait_for

WAITING = """
begin()
text("first half ")
open(HERE / "waits", "w").close()
wait_for("go")
text("second half")
end()
"""
ADOPTED_WITHIN = 2.0
"""Seconds after a daemon serves in which it has taken its predecessor's run up."""


@pytest.fixture
def faults() -> Iterator[Faults]:
    made = make(WAITING, (task(1, "todo"), task(2, "todo")))
    try:
        made.start()
        yield made
    finally:
        made.close()


def _begun(faults: Faults) -> Fact:
    """A run whose agent waits for a word."""
    run = faults.ask("one", "the-run", task_id="RQ-0001")
    assert run is not None
    wait_for((faults.stage.folder / "waits").exists, "the agent")
    return run


def _state(faults: Faults, run: Fact) -> str:
    with faults.served.connect() as wire:
        state: str = wire.call("run.get", run_id=run["run_id"])["run"]["state"]
        return state


def _agent(faults: Faults) -> tuple[int, str | None]:
    pid = faults.stage.calls()[-1]["pid"]
    return pid, process_start_time(pid)


def _goes_on(faults: Faults, run: Fact, agent: tuple[int, str | None], served_since: float) -> None:
    """The run is adopted in time with the very agent that it had, and comes to its end, all of it told."""
    wait_for(lambda: _state(faults, run) == "running", "the adoption", ADOPTED_WITHIN - (time.monotonic() - served_since))
    assert _agent(faults) == agent
    assert agent[1] is not None
    faults.stage.make_file("go")
    notes = faults.heard(run)
    assert notes[-1]["summary"]["outcome"] == "ran"
    told = kinds(notes)
    assert [told.count(one) for one in ("run_started", "task_selected", "phase_entered", "phase_completed", "run.finished")] == [
        1
    ] * 5
    assert output(notes).split() == ["first", "half", "second", "half"]
    assert len(faults.stage.calls()) == 1
    assert faults.stage.statuses()[1] == {"RQ-0001": "done"}


def test_e03_f03_after_kill_9_the_next_daemon_adopts_the_agent_and_no_lock_is_held(faults: Faults) -> None:
    """E03: the old agent is adopted, never a second one. F03: the agent that lives on holds no lock of the dead daemon."""
    run = _begun(faults)
    agent = _agent(faults)
    faults.kill()
    faults.start()
    served = time.monotonic()
    with faults.served.connect() as wire:
        answer = wire.ask("run.start", mode="one", task_id="RQ-0002", env=faults.world.environ, caller=faults.world.caller)
        assert answer["error"]["data"]["run_id"] == run["run_id"], "one run at a time, also just after the start"
    _goes_on(faults, run, agent, served)


def _until_closed(wire: Wire) -> list[str]:
    """The methods of what comes until the daemon closes the connection."""
    told: list[str] = []
    try:
        while True:
            told.append(wire.note()["method"])
    except Ended:
        return told


def test_d14_sigterm_of_the_daemon_leaves_the_run_and_tells_the_subscribers(faults: Faults) -> None:
    run = _begun(faults)
    agent = _agent(faults)
    with faults.served.connect() as wire:
        wire.subscribe(run_id=run["run_id"])
        faults.served.send(signal.SIGTERM)
        told = _until_closed(wire)
    assert told[-1] == "daemon.closing"
    assert "run.finished" not in told
    assert faults.served.process.wait(20) == 0
    assert process_start_time(agent[0]) == agent[1]
    assert faults.world.repository.lock.exists()
    faults.start()
    _goes_on(faults, run, agent, time.monotonic())


def test_d14_stop_with_leave_runs_then_start(faults: Faults) -> None:
    run = _begun(faults)
    agent = _agent(faults)
    refused = faults.world.run("daemon", "stop")
    assert refused.returncode != 0
    assert run["run_id"] in refused.stderr.decode()
    assert faults.served.process.poll() is None
    assert faults.world.run("daemon", "stop", "--leave-runs").returncode == 0
    assert faults.served.process.wait(20) == 0
    assert process_start_time(agent[0]) == agent[1]
    faults.start()
    _goes_on(faults, run, agent, time.monotonic())


def test_the_shim_brings_a_daemon_back_when_there_is_something_to_tell(faults: Faults) -> None:
    _begun(faults)
    faults.served.kill()
    assert faults.world.daemons() == []
    faults.stage.make_file("go")
    wait_for(lambda: faults.stage.statuses()[1] == {"RQ-0001": "done"}, "the end of the run")
    assert faults.world.daemons() != []
    assert len(faults.stage.calls()) == 1


def test_after_a_stop_on_purpose_no_shim_brings_a_daemon_back(faults: Faults) -> None:
    run = _begun(faults)
    assert faults.world.run("daemon", "stop", "--leave-runs").returncode == 0
    faults.stage.make_file("go")
    wait_for(lambda: not faults.stage.processes(), "the agent's end")
    until = time.monotonic() + 2.5
    while time.monotonic() < until:
        assert faults.world.daemons() == []
        time.sleep(0.05)
    faults.start()
    assert faults.heard(run)[-1]["summary"]["outcome"] == "ran"
    assert len(faults.stage.calls()) == 1


def test_f02_after_kill_9_of_daemon_shim_and_agent_the_next_run_has_the_queue_lock_within_two_seconds(faults: Faults) -> None:
    _begun(faults)
    assert faults.world.repository.lock.exists()
    killed = [*faults.shims(), *faults.stage.processes()]
    faults.kill()
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    faults.start()
    served = time.monotonic()
    with faults.served.connect() as wire:
        wait_for(lambda: wire.call("daemon.status").get("active_run") is None, "the settling", ADOPTED_WITHIN)
    faults.stage.make_file("go")
    run = faults.ask("one", "the-next-run", task_id="RQ-0002", fresh=True)
    assert run is not None
    with faults.served.connect() as wire:
        wire.subscribe(run_id=run["run_id"], cursor=run["cursor"])
        while wire.event()["kind"] != "task_selected":
            pass
        assert time.monotonic() - served < ADOPTED_WITHIN
        assert notes_until_finished(wire, run["run_id"])[-1]["summary"]["outcome"] == "ran"


def test_the_client_of_a_killed_daemon_sees_its_run_to_the_end(faults: Faults) -> None:
    """The command starts another daemon and goes on where it was: each event once."""
    caller = faults.world.spawn("machine", "run", "one", "--id", "RQ-0001")
    wait_for((faults.stage.folder / "waits").exists, "the agent")
    faults.served.kill()
    wait_for(lambda: bool(faults.world.daemons()), "another daemon")
    faults.stage.make_file("go")
    out, err = caller.communicate(timeout=60)
    told = Told.of(out, err, caller.returncode)
    assert (told.outcome, told.code) == ("ran", 0)
    assert [told.kinds.count(one) for one in ("run_started", "phase_entered", "phase_completed")] == [1, 1, 1]
    assert told.output.split() == ["first", "half", "second", "half"]

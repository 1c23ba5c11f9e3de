"""`cueloop daemon restart` with a run under way: refused, waited for, left, cancelled."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator

import pytest

from support.runs import Stage, finished, nothing_left, start
from support.wire import SECONDS, Wire, wait_for
from support.world import Daemon, World

ACT = """
begin()
text("at work")
wait_for("go")
end()
"""


@pytest.fixture
def stage(world: World) -> Iterator[Stage]:
    stage = Stage.make(world, ACT)
    yield stage
    stage.make_file("go")


def running(stage: Stage) -> tuple[Daemon, str]:
    """A daemon with a run under way."""
    daemon = stage.world.start(at_home=True)
    with daemon.connect() as wire:
        run_id = start(wire, stage)
    stage.was_called()
    return daemon, run_id


def test_it_waits_for_the_run_and_says_so_and_what_interrupts_it_leaves_all_as_it_was(world: World, stage: Stage) -> None:
    daemon, run_id = running(stage)
    refused = world.run("daemon", "restart")
    assert (refused.returncode, run_id in refused.stderr.decode()) == (1, True)
    late = world.run("--timeout", "0.3", "daemon", "restart", "--when-idle")
    assert (late.returncode, b"did not end within 0.3 s" in late.stderr) == (1, True)
    first, second = (world.spawn("daemon", "restart", "--when-idle", "--json") for _ in range(2))
    for process in (first, second):
        assert process.stderr is not None
        said = process.stderr.readline().decode()
        assert f"Waiting for run {run_id} (task RQ-0001) to end" in said
    os.kill(first.pid, signal.SIGINT)
    assert first.wait(SECONDS) == 130
    with daemon.connect() as wire:
        assert wire.call("daemon.status")["pid"] == daemon.pid
    stage.make_file("go")
    out, _ = second.communicate(timeout=60)
    told = json.loads(out)
    assert (second.returncode, told["how"]) == (0, "handover")
    wait_for(lambda: world.daemons() == [told["pid"]], "the old one is gone")
    with nothing_left(stage), Wire(daemon.socket) as wire:
        assert finished(wire, run_id)["summary"]["outcome"] == "ran"


def test_an_open_question_is_waited_for_and_left_to_the_next_daemon(world: World) -> None:
    stage = Stage.make(world, "begin()\nsys.exit(3)\n", git_revert_mode="ask")
    daemon = world.start(at_home=True)
    with daemon.connect() as wire:
        cursor = wire.subscribe()["cursor"]
        run_id = start(wire, stage, interactive=True)
        while wire.note()["method"] != "question":
            pass
    waiting = world.run("--timeout", "0.3", "daemon", "restart", "--when-idle")
    assert b"which asks a question (cueloop run attach)" in waiting.stderr
    done = world.run("daemon", "restart", "--leave-runs", "--json")
    assert json.loads(done.stdout)["how"] == "handover", done.stderr
    with nothing_left(stage), Wire(daemon.socket) as wire:
        (question,) = wire.subscribe(cursor=cursor)["snapshot"]["questions"]
        wire.call("run.answer", run_id=run_id, question_id=question["question_id"], choice="keep")
        methods: list[str] = []
        while "run.finished" not in methods:
            methods.append(wire.note()["method"])
        assert (methods.count("question"), methods.count("question.resolved")) == (1, 1)


def test_it_cancels_the_run_first_if_told_to(world: World, stage: Stage) -> None:
    daemon, run_id = running(stage)
    done = world.run("daemon", "restart", "--cancel-runs", "--json")
    assert (done.returncode, json.loads(done.stdout)["how"]) == (0, "handover"), done.stderr
    with nothing_left(stage), Wire(daemon.socket) as wire:
        assert finished(wire, run_id)["summary"]["outcome"] == "stopped"

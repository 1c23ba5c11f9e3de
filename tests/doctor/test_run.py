"""A real run seen by the doctor: at work, without its daemon, without its shim, settled."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator

import pytest

from cueloop_protocol.documents.doctor import DoctorDocument
from cueloop_protocol.identity import process_start_time
from doctor.lab import codes
from support.runs import Stage, nothing_left, start
from support.wire import wait_for
from support.world import World


@pytest.fixture
def world() -> Iterator[World]:
    world = World.make()
    try:
        yield world
    finally:
        world.close()


def visited(world: World) -> DoctorDocument:
    return DoctorDocument.model_validate(json.loads(world.run("doctor", "--json", "--no-versions").stdout))


def troubles(document: DoctorDocument) -> list[str]:
    return codes(document, "error", "warning")


def would(document: DoctorDocument) -> list[str]:
    return [run.would for run in document.preview.next]


def test_a_run_from_its_work_to_its_interruption(world: World) -> None:
    stage = Stage.make(world, 'begin(); wait_for("go"); end()')
    first = world.start(at_home=True)
    with first.connect() as wire:
        run_id = start(wire, stage)
    stage.was_called()
    working = visited(world)
    assert (troubles(working), would(working)) == ([], ["wait"] * 3)
    assert "run-active" in codes(working)
    assert f"Run {run_id} (one) is running here: task RQ-0001" in working.preview.words[0]

    first.kill()
    alone = visited(world)
    assert (troubles(alone), would(alone)) == (["run-without-daemon"], ["wait"] * 3)

    shim = json.loads((world.repository.ours / "runs" / run_id / "shim.json").read_text())["pid"]
    with nothing_left(stage):
        os.kill(shim, signal.SIGKILL)
        wait_for(lambda: process_start_time(shim) is None, "the shim is gone")
        interrupted = visited(world)
        assert troubles(interrupted) == ["queue-lock-dead", "run-interrupted"]
        assert run_id in next(finding.message for finding in interrupted.findings if finding.code == "run-interrupted")
        assert would(interrupted) == ["ask", "ask", "resume"]
        assert any("conversation of claude in this phase is on record" in words for words in interrupted.preview.words)

        second = world.start(at_home=True)
        with second.connect() as wire:
            wait_for(lambda: wire.call("run.get", run_id=run_id)["run"]["state"] == "finished", "the run is settled")
        settled = visited(world)
        assert (troubles(settled), would(settled)) == ([], ["ask", "ask", "resume"])

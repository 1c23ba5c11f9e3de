"""The power goes while nobody takes down what an agent says: its conversation is on the disk, and gone on with all the same."""

from __future__ import annotations

import json
import os

import pytest

from support.fixtures import world as world
from support.runs import Stage, machine_run
from support.wire import wait_for
from support.world import World

SAYS_WHO_IT_IS = """
if RESUMED:
    work()
else:
    wait_for("speak")
    {begins}
    say(type="assistant", message={{"role": "assistant", "content": [{{"type": "text", "text": "I begin."}}]}})
    wait_for("never")
"""


def cut_off(stage: Stage) -> None:
    """Begin a run, kill its daemon, let the agent speak to the shim alone, and kill both."""
    ours = stage.world.repository.ours
    assert stage.world.run("run", "one", "--detach").returncode == 0
    stage.was_called()
    shim = json.loads((ours / "active.json").read_text())["shim"]["pid"]
    (daemon,) = stage.world.daemons()
    os.kill(daemon, 9)
    wait_for(lambda: not stage.world.daemons(), "the end of the daemon")
    stage.make_file("speak")
    wait_for(lambda: any(b"I begin." in path.read_bytes() for path in ours.glob("runs/*/*.out.*")), "what it says, on the disk")
    os.kill(shim, 9)
    os.kill(stage.calls()[0]["pid"], 9)
    wait_for(lambda: b" is over." in stage.world.run("run", "status").stdout, "the end of the run")


@pytest.mark.parametrize(
    ("begins", "status", "reason"),
    [
        ("begin()", "resuming_same_session", "session_valid"),
        ("", "falling_back_to_fresh_invocation", "missing_runner_session_id"),
        ("begin(); say(type='result', subtype='error', is_error=True, session_id=ID)", "falling_back_to_fresh_invocation", None),
    ],
    ids=["reported", "silent about its id", "failed"],
)
def test_what_was_said_to_nobody(world: World, begins: str, status: str, reason: str | None) -> None:
    stage = Stage.make(world, SAYS_WHO_IT_IS.format(begins=begins))
    cut_off(stage)
    stage.act("work()")
    told = machine_run(stage, "one", "--resume", "--force")
    decided = [event["payload"] for event in told.events if event["kind"] == "resume_decision"]
    (continued,) = [one for one in decided if one["scope"] == "continue_session"]
    assert continued["status"] == status
    assert reason is None or continued["reason"] == reason
    first, second = (call["argv"] for call in stage.calls())
    assert ("--resume" in second) == (status == "resuming_same_session")
    assert told.outcome == "ran"
    if "--resume" in second:
        assert second[second.index("--resume") + 1] == first[first.index("--session-id") + 1]

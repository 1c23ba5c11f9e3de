"""Disks that are full, repositories that were lost, configurations that break, children that linger."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import anyio
import pytest

from cueloop_daemon.runners import PluginFacts
from cueloop_daemon.runs.types import Exited, NotStarted, Order
from cueloop_daemon.store.outcomes import OwnershipLost
from runs.fakes import Script
from runs.program import claude
from runs.program.played import Stage, ends, queue, session, task
from runs.program.playing import GATE, ONE, set_stage, tell
from runs.program.stories import works


async def test_a04_a_full_disk_while_the_run_changes_phase(folder: Path) -> None:
    """Old bytes are untouched, nothing claims that the phase was recorded, and a later run goes on without more ado."""

    def play(made: Stage, order: Order) -> Script | NotStarted:
        found = works(made, order)
        made.failing = errno.ENOSPC
        return found

    made = set_stage(folder, how=play, phases=3)
    told = await tell(made)
    assert told.ending.error is not None
    assert (told.outcome, "the disk is full" in told.ending.error.message) == ("failed", True)
    saved = made.session()
    assert saved is not None
    assert (saved["current_phase"], told.phases) == (1, ["plan"])
    assert not [name for name in os.listdir(folder / ".cueloop/cache") if "cueloopd-" in name]
    made.failing, made.how = None, works
    made.reboot({"mode": "one", "resume": True})
    assert (await tell(made)).outcome == "ran"


async def test_a_read_only_repository(folder: Path) -> None:
    made = set_stage(folder)
    made.failing = errno.EROFS
    told = await tell(made)
    assert told.ending.error is not None
    assert (told.outcome, told.ending.error.code, made.played) == ("failed", "permission_denied", [])


async def test_a_repository_that_is_somebody_elses_by_now_is_left_as_it_is(folder: Path) -> None:
    """The run goes on elsewhere: this daemon says nothing and settles nothing."""

    def play(made: Stage, order: Order) -> Script | NotStarted:
        made.is_ours = False
        return works(made, order)

    made = set_stage(folder, how=play)
    with pytest.raises(OwnershipLost):
        await made.life()
    assert (made.store.over, made.tasks("queue")) == (None, {"RQ-0001": "doing"})


async def test_a_configuration_that_breaks_while_the_run_starts(folder: Path) -> None:
    made = set_stage(folder)

    def look(key: str, point: str) -> None:
        if (key, point) == ("opening", "before"):
            made.write(".cueloop/config.jsonc", '{"agent": {"runner": 5}}')

    state = await made.life(look)
    assert state.ending is not None
    assert state.ending.error is not None
    assert (state.ending.outcome, state.ending.error.code) == ("failed", "config_incompatible")
    assert "config.jsonc" in state.ending.error.message + (state.ending.error.detail or "")
    assert made.events() == []


async def test_a_hand_off_that_cannot_be_written(folder: Path) -> None:
    made = set_stage(folder, phases=3)
    made.write(".cueloop/cache/phase2_final", "a file where a folder must be")
    told = await tell(made)
    assert told.ending.error is not None
    assert told.outcome == "failed"
    assert "RQ-0001.md" in told.ending.error.message
    assert made.session() is not None


async def test_a33_inputs_that_are_no_files(folder: Path) -> None:
    """A folder where the plan should be is no plan; nobody waits for a FIFO."""
    for kind in ("folder", "fifo"):
        tasks = queue(task("RQ-0001", status="doing"))
        made = set_stage(folder.with_name(kind), {"mode": "one", "resume": True}, tasks=tasks, saved=session(), phases=2)
        plan = made.folder / ".cueloop/cache/plans/RQ-0001.md"
        plan.parent.mkdir(parents=True)
        plan.mkdir() if kind == "folder" else os.mkfifo(plan)
        made.how = lambda made, order: claude.fails(order)
        told = await tell(made)
        assert told.phases == ["plan"]
        assert told.has_warned("The session is in phase 2, whose inputs are missing; task RQ-0001 goes on from phase 1.")


@pytest.mark.parametrize(("has_hand_off", "phases"), [(True, ["review"]), (False, ["implement", "review"])])
async def test_a_review_needs_what_the_implementer_left(has_hand_off: bool, phases: list[str], folder: Path) -> None:
    tasks = queue(task("RQ-0001", status="doing"))
    made = set_stage(folder, {"mode": "one", "resume": True}, tasks=tasks, saved=session(current_phase=3), phases=3)
    made.write(".cueloop/cache/plans/RQ-0001.md", "A plan.\n")
    if has_hand_off:
        made.write(".cueloop/cache/phase2_final/RQ-0001.md", "It is done.\n")
    assert (await tell(made)).phases == phases


async def test_an_agent_that_stays_after_its_last_word_has_thirty_seconds(folder: Path) -> None:
    """Then it is ended, and its stream alone counts."""

    def play(made: Stage, order: Order) -> Script | NotStarted:
        return Script(claude.succeeds(order).out, b"", None)

    made = set_stage(folder, how=play)

    async def end_it() -> None:
        while not any(call.startswith("limits") for call in made.shim.calls):
            await anyio.lowlevel.checkpoint()
        made.shim.ended[max(made.shim.orders)] = Exited(None, 9, "leave", 0, 0, 0)
        made.shim.tell()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(end_it)
        with anyio.fail_after(5):
            told = await tell(made)
    assert (told.outcome, len(made.played)) == ("ran", 1)


async def test_a_gate_and_a_git_that_cannot_be_started(folder: Path) -> None:
    def play(made: Stage, order: Order) -> Script | NotStarted:
        return NotStarted("exec", errno.EACCES) if order.kind == "ci" else works(made, order)

    told = await tell(set_stage(folder, how=play, **GATE))
    assert told.ending.error is not None
    assert "make could not be started (exec, errno 13)" in told.ending.error.message
    made = set_stage(folder.with_name("other"), git_publish_mode="commit")
    made.missing = {"commit"}
    told = await tell(made)
    assert (told.outcome, told.has_warned("commit was not found on the PATH")) == ("ran", True)


async def test_a_runner_that_keeps_its_sessions_in_files_and_has_lost_one(folder: Path) -> None:
    """Pi: known beforehand to be gone, said, and begun anew."""

    def play(made: Stage, order: Order) -> Script | NotStarted:
        if order.kind == "ci":
            return ends(1 if made.played.count("ci make") == 1 else 0)
        lines = (
            {"type": "session", "id": "33333333-2222-4333-8444-555555555555"},
            {
                "type": "message_end",
                "message": {"role": "assistant", "content": [{"type": "text", "text": "Done."}], "stopReason": "stop"},
            },
            {"type": "agent_end", "messages": []},
        )
        return Script(claude.lines(*lines))

    model = {"model": "openai-codex/gpt-5.4"}
    pi = {"runner": "pi", **model, "phase_overrides": {f"phase{n}": model for n in (1, 2, 3)}}
    made = set_stage(folder, ONE, play, **GATE, **pi)
    made.version = "1.6.0"
    told = await tell(made)
    said = [
        (event["payload"]["status"], event["payload"]["reason"]) for event in told.events if event["kind"] == "resume_decision"
    ]
    assert (told.outcome, said) == ("ran", [("falling_back_to_fresh_invocation", "runner_session_invalid")])


async def test_a_plugin_that_cannot_continue_is_begun_anew(folder: Path) -> None:
    """Its manifest says so; what the gate says is then told to a fresh agent."""

    def play(made: Stage, order: Order) -> Script | NotStarted:
        if order.kind == "ci":
            return ends(1 if made.played.count("ci make") == 1 else 0)
        return Script(claude.lines({"type": "text", "text": "Done."}, {"type": "finish", "session_id": "abc"}))

    made = set_stage(folder, {"mode": "one", "overrides": {"runner": "echo"}}, play, **GATE)
    made.plugins = {"echo": PluginFacts("echo", "/bin/echo", False, "any", "{}")}
    told = await tell(made)
    said = [
        (event["payload"]["status"], event["payload"]["reason"]) for event in told.events if event["kind"] == "resume_decision"
    ]
    assert (told.outcome, said) == ("ran", [("falling_back_to_fresh_invocation", "missing_runner_session_id")])

"""Runs on a terminal with the real daemon and a stand-in for the agent: what a person meets."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from client.run_terminal import CONTROL_C, SECONDS, Terminal, on_terminal
from cueloop_protocol.roots import open_root
from support.fixtures import world as world
from support.repository import task
from support.runs import Stage, nothing_left
from support.wire import wait_for
from support.world import World

TWO_PARTS = "begin(); text('first part'); wait_for('go'); text('second part'); end()"
PROMPT = re.compile(r"\[[A-Za-z/]+\] $")


@contextmanager
def terminal(stage: Stage, line: str) -> Iterator[Terminal]:
    """A command on a terminal in the stage's repository."""
    with on_terminal(open_root(str(stage.world.repository.path)), stage.world.environ, line) as found:
        yield found


@contextmanager
def staged(world: World, act: str = "work()", **agent: Any) -> Iterator[Stage]:
    """A stage of which no process is left afterwards."""
    stage = Stage.make(world, act, **agent)
    with nothing_left(stage):
        yield stage


def daemon_pid(stage: Stage) -> int:
    """The daemon that a command started."""
    locator = stage.world.repository.path / ".cueloop/cache/cueloopd/locator.json"
    pid: int = json.loads(locator.read_text())["pid"]
    return pid


def session_file(stage: Stage) -> Path:
    path: Path = stage.world.repository.path / ".cueloop/cache/session.jsonc"
    return path


def interrupt(stage: Stage) -> None:
    """Begin the task and cancel it, so that a session is left."""
    stage.act("begin(); text('begun'); wait_for('never')")
    with terminal(stage, "run one") as shown:
        shown.await_text("begun")
        shown.type(CONTROL_C)
        shown.await_text("Ctrl-C again cancels it now.")
        shown.type(CONTROL_C)
        shown.await_text("Stopped.")
        assert shown.end() == 130


def test_a_lost_daemon_is_started_again_and_nothing_is_shown_twice_or_not_at_all(world: World) -> None:
    with staged(world, TWO_PARTS) as stage, terminal(stage, "run one") as shown:
        before = shown.await_text("first part")
        killed = daemon_pid(stage)
        os.kill(killed, signal.SIGKILL)
        before += shown.await_text("the run goes on. Connecting again.")
        stage.make_file("go")
        after = shown.await_text("Done: RQ-0001.")
        assert shown.end() == 0
        assert daemon_pid(stage) != killed
    told = before + after
    for words in ("first part", "second part", "== RQ-0001", "Phase implement of RQ-0001 begins", "is complete"):
        assert told.count(words) == 1, told
    assert stage.statuses() == ({}, {"RQ-0001": "done"})
    assert len(stage.calls()) == 1


def test_ctrl_c_twice_cancels_and_the_next_run_asks_what_to_do(world: World) -> None:
    with staged(world) as stage:
        interrupt(stage)
        assert stage.statuses() == ({"RQ-0001": "doing"}, {})
        stage.act("work('resumed')")
        with terminal(stage, "run one") as shown:
            asked = shown.await_text("[Y/n/q] ")
            for words in (
                "RQ-0001",
                "age ",
                "phase       2 (implement)",
                "iterations  0 of 1 done",
                "runner      claude, model sonnet",
            ):
                assert words in asked
            shown.type("\n")
            shown.await_text("continuing the interrupted session for task RQ-0001")
            shown.await_text("Done: RQ-0001.")
            assert shown.end() == 0
    assert stage.statuses() == ({}, {"RQ-0001": "done"})
    assert not session_file(stage).exists()


@pytest.mark.parametrize("key", [CONTROL_C, "\x04", "q\n"])
def test_a_question_that_is_left_changes_nothing(world: World, key: str) -> None:
    with staged(world) as stage:
        interrupt(stage)
        before = session_file(stage).read_bytes()
        with terminal(stage, "run loop") as shown:
            shown.await_text("[Y/n/q] ")
            shown.type(key)
            shown.await_text("nothing was started and nothing was changed.")
            assert shown.end() == 130
        assert session_file(stage).read_bytes() == before
        assert len(stage.calls()) == 1


def test_a_session_that_timed_out_is_asked_about_with_leaving_as_the_default(world: World) -> None:
    with staged(world) as stage:
        interrupt(stage)
        old = json.loads(session_file(stage).read_text()) | {"last_updated_at": "2026-01-01T00:00:00Z"}
        session_file(stage).write_text(json.dumps(old))
        with terminal(stage, "run resume") as shown:
            shown.await_text("[r/f/Q] ")
            shown.type("\n")
            assert shown.end() == 130
        stage.act("work()")
        with terminal(stage, "run resume --max-tasks 1") as shown:
            shown.await_text("[r/f/Q] ")
            shown.type("f\n")
            shown.await_text("-- Phase implement of RQ-0001 begins.")
            assert shown.end() == 0
    assert stage.statuses() == ({}, {"RQ-0001": "done"})


def test_a_damaged_session_offers_fresh_or_leave_and_its_bytes_are_kept(world: World) -> None:
    with staged(world) as stage:
        session_file(stage).parent.mkdir(parents=True, exist_ok=True)
        session_file(stage).write_bytes(b"{ broken")
        with terminal(stage, "run one") as shown:
            shown.await_text("[f/Q] ")
            shown.type("\n")
            assert shown.end() == 130
        assert session_file(stage).read_bytes() == b"{ broken"
        with terminal(stage, "run one") as shown:
            shown.await_text("[f/Q] ")
            shown.type("f\n")
            shown.await_text("Done: RQ-0001.")
            assert shown.end() == 0
        (kept,) = (session_file(stage).parent / "session-quarantine").iterdir()
        assert kept.read_bytes() == b"{ broken"


def test_a_session_of_a_newer_version_is_explained_and_not_asked_about(world: World) -> None:
    with staged(world) as stage:
        session_file(stage).parent.mkdir(parents=True, exist_ok=True)
        session_file(stage).write_bytes(b'{"version": 99}')
        with terminal(stage, "run one") as shown:
            assert shown.end() == 1
            assert "session clear" in shown.shown
            assert PROMPT.search(shown.shown) is None
        assert session_file(stage).read_bytes() == b'{"version": 99}'
        assert stage.calls() == []


def test_a_terminal_that_goes_away_leaves_the_run_and_another_one_shows_it_d14(world: World) -> None:
    with staged(world, TWO_PARTS) as stage:
        with terminal(stage, "run one") as shown:
            shown.await_text("first part")
            shown.hang_up()
            assert shown.process.wait(SECONDS) == -signal.SIGHUP
        with terminal(stage, "run attach") as shown:
            shown.await_text("is running.")
            stage.make_file("go")
            shown.await_text("second part")
            shown.await_text("Done: RQ-0001.")
            assert shown.end() == 0
    assert len(stage.calls()) == 1


FAILS_ONCE = "begin(); sys.exit(3) if NUMBER == 1 else (text('went on'), end())"


def test_after_a_failure_the_person_decides_and_the_agent_is_told(world: World) -> None:
    with staged(world, FAILS_ONCE, git_revert_mode="ask") as stage, terminal(stage, "run one") as shown:
        shown.await_text("[KEEP/revert/continue] ")
        shown.type("cont\n")
        shown.await_text("What shall the agent be told?")
        shown.type("use the other door\n")
        shown.await_text("went on")
        shown.await_text("Done: RQ-0001.")
        assert shown.end() == 0
    first, second = stage.calls()
    assert "use the other door" in second["prompt"]
    assert "use the other door" not in first["prompt"]


def test_of_two_terminals_one_answers_and_the_other_is_told(world: World) -> None:
    with staged(world, FAILS_ONCE, git_revert_mode="ask") as stage, terminal(stage, "run one") as one:
        one.await_text("[KEEP/revert/continue] ")
        with terminal(stage, "run attach") as other:
            other.await_text("[KEEP/revert/continue] ")
            other.type("keep\n")
            one.await_text("The question is settled (answered elsewhere): keep.")
            assert (one.end(), other.end()) == (1, 1)


def test_detached_status_output_stop_and_cancel(world: World) -> None:
    with staged(world, TWO_PARTS, tasks=(task(1, "todo"), task(2, "todo"))) as stage:
        started = world.run("run", "loop", "--detach")
        assert (started.returncode, b"was started and goes on by itself" in started.stdout) == (0, True)
        stage.was_called()
        assert b"is running." in world.run("run", "status").stdout
        busy = world.run("run", "one")
        assert (busy.returncode, busy.stderr != b"") == (1, True)
        assert world.run("run", "stop").returncode == 0
        follow = world.spawn("run", "output", "--follow")
        stage.make_file("go")
        out, err = follow.communicate(timeout=SECONDS)
        assert (follow.returncode, err) == (0, b"")
        assert out.count(b"first part") == out.count(b"second part") == 1
        assert stage.statuses()[1] == {"RQ-0001": "done"}
        stage.act("begin(); wait_for('never')")
        assert world.run("run", "loop", "--detach").returncode == 0
        stage.was_called(2)
        cancelled = world.run("run", "cancel")
        assert (cancelled.returncode, b"is over." in cancelled.stdout) == (0, True)
        assert stage.processes() == []
        assert world.run("run", "attach").returncode == 1


def test_output_is_followed_over_a_daemon_that_is_killed(world: World) -> None:
    with staged(world, TWO_PARTS) as stage:
        assert world.run("run", "one", "--detach").returncode == 0
        stage.was_called()
        follow = world.spawn("run", "output", "--follow")
        assert follow.stdout is not None
        seen = b""
        while b"first part" not in seen:
            seen += os.read(follow.stdout.fileno(), 65536)
        [pid] = world.daemons()
        os.kill(pid, signal.SIGKILL)
        stage.make_file("go")
        out, err = follow.communicate(timeout=SECONDS)
        assert (follow.returncode, err) == (0, b"")
        out = seen + out
        assert (out.count(b"first part"), out.count(b"second part")) == (1, 1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_machine_run_is_cancelled_by_int_and_term(world: World, number: signal.Signals) -> None:
    with staged(world, "begin(); wait_for('never')") as stage:
        process = world.spawn("machine", "run", "one")
        stage.was_called()
        process.send_signal(number)
        out, err = process.communicate(timeout=SECONDS)
        assert (process.returncode, err) == (0, b"")
        assert json.loads(out.splitlines()[-1]) == {"version": 2, "task_id": None, "exit_code": 0, "outcome": "stopped"}
        assert stage.processes() == []


def test_the_agent_gets_the_callers_environment_and_not_the_daemons(world: World) -> None:
    with staged(world) as stage:
        assert world.run("daemon", "start").returncode == 0
        assert world.run("machine", "run", "one", environ={"FROM_THE_CALLER": "é"}).returncode == 0
        wait_for(lambda: len(stage.calls()) == 1, "the call of the agent")
        assert stage.calls()[0]["env"]["FROM_THE_CALLER"] == "é"


def test_dry_run_changes_nothing(world: World) -> None:
    with staged(world) as stage:
        interrupt(stage)
        before = {path: path.read_bytes() for path in stage.world.repository.path.glob(".cueloop/*.jsonc")}
        session = session_file(stage).read_bytes()
        told = world.run("run", "one", "--dry-run")
        assert (told.returncode, b"Nothing was changed." in told.stdout) == (1, True)
        told = world.run("run", "resume", "--dry-run")
        assert (told.returncode, b"Task: RQ-0001 (doing)" in told.stdout) == (0, True)
        assert {path: path.read_bytes() for path in before} == before
        assert session_file(stage).read_bytes() == session
        assert len(stage.calls()) == 1


def test_a_daemon_that_was_stopped_on_purpose_is_waited_for_and_not_started(world: World) -> None:
    with staged(world, TWO_PARTS) as stage, terminal(stage, "run one") as shown:
        shown.await_text("first part")
        assert world.run("daemon", "stop", "--leave-runs").returncode == 0
        shown.await_text("waiting until a daemon is started again.")
        stage.make_file("go")
        assert world.run("daemon", "status").returncode == 3
        assert world.run("daemon", "start").returncode == 0
        assert shown.await_text("Done: RQ-0001.").count("second part") == 1
        assert shown.end() == 0
    assert len(stage.calls()) == 1


def test_a_cancel_brings_a_daemon_back_that_was_stopped_on_purpose(world: World) -> None:
    with staged(world, TWO_PARTS) as stage, terminal(stage, "run one") as shown:
        shown.await_text("first part")
        assert world.run("daemon", "stop", "--leave-runs").returncode == 0
        shown.await_text("waiting until a daemon is started again.")
        shown.type(CONTROL_C)
        shown.await_text("Ctrl-C again cancels it now.")
        shown.type(CONTROL_C)
        shown.await_text("Stopped.")
        assert shown.end() == 130
        assert stage.processes() == []

"""Runs on another machine, shown and steered from a terminal here."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from client.run_terminal import CONTROL_C, Terminal, on_terminal
from cueloop_client.far import pause_before
from cueloop_client.remote.place import far_place
from cueloop_client.world import real_world
from cueloop_protocol.roots import open_root
from support.runs import Stage, Told, nothing_left
from support.sshd import Sshd
from support.wire import wait_for

WAITING = "begin(); text('begun'); wait_for('go'); text('second part'); end()"
PROMPTING = """\
#!/bin/sh
case "$*" in
  *BatchMode=yes*) echo "me@box: Permission denied (password)." >&2; exit 255;;
esac
printf "me@box's password: " >/dev/tty
read -r word </dev/tty
[ "$word" = sesame ] || exit 255
exec ssh -F {config} "$@"
"""


@pytest.fixture(scope="module")
def stage(box: Sshd) -> Iterator[Stage]:
    """The repository there, with a stand-in for the agent."""
    stage = Stage.make(box.world)
    with nothing_left(stage):
        yield stage


@pytest.fixture(autouse=True)
def as_new(stage: Stage) -> None:
    """A task to do, and no session."""
    queue = {
        "version": 1,
        "tasks": [{"id": "RQ-0001", "status": "todo", "title": "Task 1", "created_at": STAMP, "updated_at": STAMP}],
    }
    stage.world.repository.put(stage.world.repository.queue, json.dumps(queue).encode())
    (stage.world.repository.folder / "done.jsonc").unlink(missing_ok=True)
    for name in ("calls.jsonl", "go"):
        (stage.folder / name).unlink(missing_ok=True)


STAMP = "2026-02-07T10:00:00Z"


@contextmanager
def terminal(box: Sshd, line: str, environ: Mapping[str, str] | None = None) -> Iterator[Terminal]:
    """A command here, for the repository there."""
    around = {**box.world.environ, **box.environ, "CUELOOP_HOST": box.url, **(environ or {})}
    with on_terminal(None, around, line) as found:
        yield found


def children(pid: int) -> list[int]:
    """The processes that it started."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_run_for_programs_gets_the_environment_there(box: Sshd, stage: Stage) -> None:
    stage.act("work()")
    done = box.run("machine", "run", "one", environ={"CUELOOP_HOST": box.url, "SECRET": "of this side"})
    told = Told.of(done.stdout, done.stderr, done.returncode)
    assert (told.code, told.outcome, told.error) == (0, "ran", None)
    [call] = stage.calls()
    assert "SECRET" not in call["env"]
    assert call["env"]["HOME"] == str(box.world.home)
    assert str(box.world.home / ".local/bin") in call["env"]["PATH"]
    assert call["cwd"] == str(box.world.repository.path)


def test_ctrl_c_stops_then_cancels_and_what_is_left_is_asked_about_here(box: Sshd, stage: Stage) -> None:
    stage.act(WAITING)
    with terminal(box, "run one") as shown:
        shown.await_text("begun")
        shown.type(CONTROL_C)
        shown.await_text("goes on to its end")
        shown.type(CONTROL_C)
        shown.await_text("Cancelling")
        assert shown.end() == 130
    stage.act("work()")
    with terminal(box, "run one") as shown:
        shown.await_text("[Y/n/q] ")
        shown.type("q\n")
        assert shown.end() == 130
    with terminal(box, "run one") as shown:
        shown.await_text("[Y/n/q] ")
        shown.type("y\n")
        shown.await_text("Done: RQ-0001.")
        assert shown.end() == 0
    assert stage.statuses() == ({}, {"RQ-0001": "done"})
    wait_for(lambda: not box.bridges(), "the end of the bridges")


def test_a_cut_under_a_run_is_told_and_mended(box: Sshd, stage: Stage) -> None:
    stage.act(WAITING)
    with terminal(box, "run one") as shown:
        shown.await_text("begun")
        for pid in children(shown.process.pid):
            os.kill(pid, signal.SIGKILL)
        shown.await_text("onnecting again")
        stage.make_file("go")
        shown.await_text("second part")
        shown.await_text("Done: RQ-0001.")
        assert shown.end() == 0


FAILING = """\
#!/bin/sh
if [ -e {folder}/failing ]; then
  echo >> {folder}/attempts
  cat {folder}/failing >&2
  exit 255
fi
exec ssh -F {config} "$@"
"""


class TestANetworkThatIsAway:
    @pytest.fixture
    def failing(self, box: Sshd) -> Iterator[Path]:
        """What an ssh says that fails, while there is such a file."""
        program = box.folder / "away"
        program.write_text(FAILING.format(folder=box.folder, config=box.config))
        program.chmod(0o755)
        yield box.folder / "failing"
        (box.folder / "failing").unlink(missing_ok=True)
        (box.folder / "attempts").unlink(missing_ok=True)

    def test_comes_back(self, box: Sshd, stage: Stage, failing: Path) -> None:
        stage.act(WAITING)
        with terminal(box, "run one", {"CUELOOP_SSH": str(box.folder / "away")}) as shown:
            shown.await_text("begun")
            failing.write_text("ssh: connect to host box port 22: Network is unreachable\n")
            for pid in children(shown.process.pid):
                os.kill(pid, signal.SIGKILL)
            attempts = box.folder / "attempts"
            wait_for(lambda: attempts.exists() and attempts.stat().st_size >= 2, "two attempts")
            failing.unlink()
            stage.make_file("go")
            shown.await_text("Done: RQ-0001.")
            assert shown.end() == 0

    def test_does_not_let_us_in_any_more(self, box: Sshd, stage: Stage, failing: Path) -> None:
        stage.act(WAITING)
        with terminal(box, "run one", {"CUELOOP_SSH": str(box.folder / "away")}) as shown:
            shown.await_text("begun")
            failing.write_text("me@box: Permission denied (publickey).\n")
            for pid in children(shown.process.pid):
                os.kill(pid, signal.SIGKILL)
            shown.await_text("No connection to box: me@box: Permission denied (publickey).")
            assert shown.end() == 1
        assert (box.folder / "attempts").stat().st_size == 1
        stage.make_file("go")
        wait_for(lambda: stage.statuses()[1] == {"RQ-0001": "done"}, "the end of the run, which goes on")


def test_the_pauses_between_logins_grow_and_vary(box: Sshd) -> None:
    root, _ = far_place(box.url, real_world(""))
    for attempt, pause in enumerate((0.0, 1.0, 2.0, 5.0, 10.0, 30.0, 30.0)):
        times = {pause_before(attempt, root, (9.0,)) for _ in range(50)}
        assert all(0.75 * pause <= time <= 1.25 * pause for time in times)
        assert len(times) > 1 or pause == 0
    here = open_root(str(box.world.repository.path))
    assert [pause_before(attempt, here, (0.0, 0.5)) for attempt in range(3)] == [0.0, 0.5, 0.5]


def test_attached_from_here_stopped_from_there(box: Sshd, stage: Stage) -> None:
    stage.act(WAITING)
    assert box.run("run", "one", "--detach", "--host", box.url).returncode == 0
    with terminal(box, "run attach") as shown:
        shown.await_text("is running.")
        stage.was_called()
        stopped = box.world.run("run", "cancel")
        assert stopped.returncode == 0, stopped.stderr
        assert shown.end() == 130
    assert box.run("session", "clear", "--yes", "--host", box.url).returncode == 0


class TestWhoIsAsked:
    @pytest.fixture
    def asking(self, box: Sshd) -> dict[str, str]:
        """An ssh that asks for a password, unless it may ask nothing."""
        program = box.folder / "asking"
        program.write_text(PROMPTING.format(config=box.config))
        program.chmod(0o755)
        return {"CUELOOP_SSH": str(program)}

    def test_a_person_at_the_first_connection(self, box: Sshd, asking: dict[str, str]) -> None:
        with terminal(box, "session show", asking) as shown:
            shown.await_text("password: ")
            shown.type("sesame\n")
            shown.await_text("No interrupted session.")
            assert shown.end() == 0

    def test_a_run_that_could_not_be_followed_is_not_started(self, box: Sshd, stage: Stage, asking: dict[str, str]) -> None:
        with terminal(box, "run one", asking) as shown:
            shown.await_text("password: ")
            shown.type("sesame\n")
            shown.await_text("No connection to box: me@box: Permission denied (password).")
            shown.await_text("use a key with an agent, or a control master")
            assert shown.end() == 1
        assert stage.calls() == []
        assert b"Task 1" not in box.run("run", "status", "--host", box.url).stdout

    def test_nobody_without_a_terminal(self, box: Sshd, asking: dict[str, str]) -> None:
        done = box.run("session", "show", "--host", box.url, environ=asking)
        assert done.returncode == 1
        assert b"Permission denied (password)" in done.stderr

    def test_ctrl_c_at_the_question_leaves(self, box: Sshd, asking: dict[str, str]) -> None:
        with terminal(box, "session show", asking) as shown:
            shown.await_text("password: ")
            shown.type(CONTROL_C)
            assert shown.end() == 130

    def test_commands_that_are_run_there_have_the_terminal(self, box: Sshd) -> None:
        assert box.run("daemon", "start", "--host", box.url).returncode == 0
        with terminal(box, "daemon logs --follow") as shown:
            shown.await_text("serving")
            shown.type(CONTROL_C)
            assert shown.end() in (0, 130)
        wait_for(lambda: not box.bridges(), "the end of the command there")


def test_a_command_that_is_killed_leaves_nothing_there(box: Sshd) -> None:
    process = box.world.spawn("events", "--follow", "--since", "", "--host", box.url, environ=box.environ, cwd="/")
    wait_for(lambda: bool(box.bridges()), "the bridge")
    process.kill()
    process.wait(20)
    assert wait_for(lambda: not box.bridges(), "the end of the bridge") < 2


def test_a_command_that_waits_there_ends_with_its_ssh(box: Sshd) -> None:
    process = box.world.spawn("daemon", "logs", "--follow", "--host", box.url, environ=box.environ, cwd="/")
    assert process.stdout is not None
    assert process.stdout.readline()
    assert box.bridges()
    for pid in children(process.pid):
        os.kill(pid, signal.SIGKILL)
    process.wait(20)
    assert wait_for(lambda: not box.bridges(), "the end of the command there") < 2

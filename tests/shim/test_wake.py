"""Bringing a daemon back: when there is something to tell, ever more seldom, and not against anybody's will."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from shim.shim_process import HASTY, World, is_alive, wait_for

NOTE = (
    "import os; fd = os.open('{path}', 1 | 64 | 1024, 0o600); "
    "os.write(fd, b'%d %d %s\\n' % (os.getpid(), os.getppid(), os.environb.get(b'MARK', b'-')))"
)


@pytest.fixture
def started(tmp_path: Path) -> Path:
    """Where each daemon that is started leaves a line: pid, parent, and the variable MARK."""
    return tmp_path / "started"


def daemon(started: Path, then: str) -> tuple[str, ...]:
    """The command of a daemon that leaves its line and does something then."""
    return sys.executable, "-I", "-S", "-c", f"{NOTE.format(path=started)}; {then}"


@pytest.fixture
def world(make_world: Callable[..., World], started: Path) -> World:
    return make_world(daemon_argv=daemon(started, "import sys; sys.exit('no luck')"), daemon_env={"MARK": "given"})


def finish(world: World, boot: str | None = HASTY) -> None:
    """A child that ends after its daemon has gone."""
    talk = world.start(boot)
    world.python(1, "pass")
    talk.ask("start", n=1, token="t")
    talk.close()
    wait_for(lambda: any(word == "exit" for word, _ in world.records()))


def ticks(world: World, count: int) -> None:
    """Let the shim look around that often: each time it finds its socket missing and makes it again."""
    for _ in range(count):
        os.unlink(world.socket)
        wait_for(lambda: os.path.exists(world.socket))


def lines(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def test_a_child_has_ended_and_nobody_is_there(world: World, started: Path) -> None:
    """The daemon of `run.json`, with its environment and no other; it is no child of the shim's, whose kin are ended."""
    finish(world, None)
    wait_for(lambda: len(lines(started)) == 1)
    pid, parent, mark = lines(started)[0]
    assert mark == "given"
    assert int(parent) != world.shim.pid
    wait_for(lambda: not is_alive(int(pid)))
    assert (world.folder / "wake.log").read_text() == "no luck\n", "its last words are there to be read"


def test_it_tries_again_ever_more_seldom(world: World, started: Path) -> None:
    finish(world, None)
    moments = []
    for count in (1, 2, 3):
        wait_for(lambda count=count: len(lines(started)) >= count)
        moments.append(time.monotonic())
    assert moments[2] - moments[1] > moments[1] - moments[0]


def test_a_live_child_is_no_reason(world: World, started: Path) -> None:
    talk = world.start(HASTY)
    world.python(1, "import time; time.sleep(1000)")
    talk.ask("start", n=1, token="t")
    talk.close()
    ticks(world, 4)
    assert lines(started) == []


def test_nothing_under_way_is_a_reason(world: World, started: Path) -> None:
    """Between two children, or after an `end` that was lost: without a daemon the run would stand still for ever."""
    talk = world.start(HASTY)
    world.python(1, "pass")
    talk.ask("start", n=1, token="t")
    talk.pushed("exited")
    talk.send("ack", upto=1)
    assert talk.ask("status")[1]["orders"] == {}
    talk.close()
    wait_for(lambda: len(lines(started)) >= 1)


def test_a_cancelled_run_is_no_reason(world: World, started: Path) -> None:
    """Who sends TERM wants less to run, not more."""
    world.start(HASTY).close()
    world.shim.terminate()
    assert world.shim.wait(30) == 0
    assert lines(started) == []


def test_a_daemon_that_was_stopped_on_purpose_stays_so(world: World, started: Path) -> None:
    """As long as the marker stands; it is looked for anew each time."""
    marker = world.root / ".cueloop/cache/cueloopd/stopped"
    marker.touch()
    finish(world)
    ticks(world, 4)
    assert lines(started) == []
    marker.unlink()
    wait_for(lambda: len(lines(started)) >= 1)


def test_who_connects_ends_the_attempts(world: World, started: Path) -> None:
    finish(world)
    wait_for(lambda: len(lines(started)) == 1)
    talk = world.connect(generation=2)
    assert talk.ask("start", n=1, token="t")[0] == "exited"
    ticks(world, 4)
    assert len(lines(started)) == 1


def test_a_daemon_lives_on_when_the_next_child_ends(make_world: Callable[..., World], started: Path) -> None:
    """It must never count as kin of an agent."""
    world = make_world(daemon_argv=daemon(started, "import time; time.sleep(1000)"))
    try:
        finish(world)
        wait_for(lambda: len(lines(started)) >= 1)
        talk = world.connect(generation=2)
        world.order(2, "/bin/sh", "-c", "sleep 1000 & exit 0")
        talk.ask("start", n=2, token="t")
        assert talk.pushed("exited")["n"] == 2
        assert is_alive(int(lines(started)[0][0]))
        assert talk.ask("end")[0] == "bye"
        world.shim.wait()
        assert is_alive(int(lines(started)[0][0])), "nor when the shim has left"
    finally:
        for pid, *_ in lines(started):
            os.kill(int(pid), signal.SIGKILL)


def test_a_program_that_is_gone_is_tried_again(make_world: Callable[..., World], tmp_path: Path) -> None:
    """An upgrade may take the interpreter away for a while: the shim stays."""
    program, started = tmp_path / "daemon", tmp_path / "started"
    world = make_world(daemon_argv=(str(program),))
    finish(world)
    wait_for(lambda: (world.folder / "wake.log").exists())
    program.write_text(f"#!/bin/sh\necho back >> {started}\n")
    program.chmod(0o755)
    wait_for(started.exists)

"""A story of five tasks: three killed daemons, a closed terminal, a failing gate, a stop, a cancel and a resume.

`python tests/support/story.py` plays it and prints what docs/story.md shows; `tests/e2e/test_runs_story.py` judges it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from client.run_terminal import CONTROL_C, on_terminal
from cueloop_protocol.roots import open_root
from support.repository import git, task
from support.runs import SECONDS, Stage
from support.wire import wait_for
from support.world import World

LISTENER = Path(__file__).with_name("listener.py")
ACT = """
begin()
plan()
text(f"{PHASE} of {TASK}")
if PHASE == "implement":
    Path(f"work-{TASK}.txt").write_text("done")
if (HERE / f"hold-{TASK}-{PHASE}").exists():
    wait_for(f"go-{TASK}-{PHASE}")
end(f"{PHASE} done")
"""
GATE = """#!/bin/sh
echo x >> "$GATE_CALLS"
[ "$(wc -l < "$GATE_CALLS")" -ne 2 ] || { echo "error: a test fails" >&2; exit 3; }
"""
KILLS = (("RQ-0001", "plan"), ("RQ-0001", "implement"), ("RQ-0001", "review"))
Note = dict[str, Any]


@dataclass
class Story:
    """The stage, what the subscriber heard, and what was seen on the terminals."""

    stage: Stage
    listener: subprocess.Popen[bytes]
    heard_in: Path
    seen: list[tuple[str, str, int | None]] = field(default_factory=list)
    """The command, what it showed, and its exit code; None for a terminal that went away."""
    killed: list[int] = field(default_factory=list)

    def heard(self) -> list[Note]:
        """What the subscriber has heard so far, in order; the first says where its stream began."""
        lines = self.heard_in.read_bytes().split(b"\n")[:-1]
        return [json.loads(line) for line in lines]

    def await_runs(self, number: int) -> None:
        """Return when the subscriber has heard so many runs end."""
        wait_for(lambda: sum("summary" in note for note in self.heard()) >= number, f"the end of run {number}", 2 * SECONDS)


def begin(world: World) -> Story:
    """The repository, its five tasks, and the subscriber, which starts the daemon."""
    stage = Stage.make(
        world, ACT, tasks=tuple(task(number, "todo") for number in range(1, 6)), phases=3, git_publish_mode="commit",
        ci_gate={"enabled": True, "argv": [str(world.folder / "gate")]},
    )  # fmt: skip
    for name, value in (("user.name", "Ann"), ("user.email", "ann@example.org")):
        git(world.repository.path, "config", name, value)
    world.environ["GATE_CALLS"] = str(world.folder / "gate-calls")
    gate = world.folder / "gate"
    gate.write_text(GATE)
    gate.chmod(0o755)
    for held in (*KILLS, ("RQ-0002", "implement"), ("RQ-0003", "plan"), ("RQ-0004", "implement")):
        stage.make_file(f"hold-{'-'.join(held)}")
    heard_in = world.folder / "heard"
    with heard_in.open("wb") as out:
        listener = subprocess.Popen(
            [sys.executable, "-P", str(LISTENER), str(world.repository.path)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            env=world.environ,
        )
    story = Story(stage, listener, heard_in)
    wait_for(lambda: bool(story.heard()), "the subscriber")
    return story


def play(story: Story) -> None:
    """All of it, in order."""
    _first_run(story)
    _second_run(story)
    _third_run(story)


def _first_run(story: Story) -> None:
    """A loop: the daemon is killed in each phase, the terminal closes, somebody says stop."""
    stage = story.stage
    with _terminal(story, "run loop") as terminal:
        for held in KILLS:
            _await_held(stage, held)
            story.killed.append(_kill_daemon(stage.world))
            _go(stage, held)
        _await_held(stage, ("RQ-0002", "implement"))
        shown = terminal.await_text("implement of RQ-0002\n")
        terminal.hang_up()
        wait_for(lambda: terminal.process.poll() is not None, "the end of the command whose terminal closed")
        story.seen.append(("run loop", shown, None))
    _go(stage, ("RQ-0002", "implement"))
    _await_held(stage, ("RQ-0003", "plan"))
    _command(story, "run", "stop")
    _go(stage, ("RQ-0003", "plan"))
    story.await_runs(1)


def _second_run(story: Story) -> None:
    """A loop that is cancelled with Ctrl-C twice, in the middle of a task."""
    with _terminal(story, "run loop") as terminal:
        _await_held(story.stage, ("RQ-0004", "implement"))
        shown = terminal.await_text("implement of RQ-0004\n")
        terminal.type(CONTROL_C)
        shown += terminal.await_text("cancels it now")
        terminal.type(CONTROL_C)
        code = terminal.end()
        story.seen.append(("run loop", shown + terminal.shown, code))
    story.await_runs(2)
    _command(story, "session", "show")


def _third_run(story: Story) -> None:
    """What was cancelled goes on where it was, and the rest follows."""
    _go(story.stage, ("RQ-0004", "implement"))
    with _terminal(story, "run resume") as terminal:
        code = terminal.end()
        story.seen.append(("run resume", terminal.shown, code))
    story.await_runs(3)


def close(story: Story) -> None:
    """End the subscriber."""
    story.listener.kill()
    story.listener.wait(SECONDS)


def table(story: Story) -> list[str]:
    """The events as rows of a page: those that say where the runs stand, in the order in which they were heard."""
    rows = []
    for note in story.heard()[1:]:
        if "summary" in note:
            rows.append(f"| `run.finished` | | {note['summary']['outcome']}, exit code {note['summary']['exit_code']} |")
            continue
        event = note["event"]
        if event["kind"] in ("runner_output", "queue_snapshot", "config_resolved") or note["origin"] == "watch":
            continue
        rows.append(f"| `{event['kind']}` | {event.get('task_id', '')} | {_said(event)} |".replace("|  |", "| |"))
    return rows


def _said(event: Note) -> str:
    match event["kind"]:
        case "phase_entered" | "phase_completed":
            said: str = event["phase"]
        case "run_started":
            said = event["run_mode"]
        case "resume_decision":
            said = f"{event['payload']['scope']}: `{event['payload']['status']}`, `{event['payload']['reason']}`"
        case _:
            said = event.get("message", "")
    return said


def _terminal(story: Story, line: str) -> Any:
    world = story.stage.world
    return on_terminal(open_root(str(world.repository.path)), world.environ, line)


def _command(story: Story, *words: str) -> None:
    done = story.stage.world.run(*words)
    story.seen.append((" ".join(words), (done.stdout + done.stderr).decode(), done.returncode))


def _await_held(stage: Stage, held: tuple[str, str]) -> None:
    wait_for(lambda: any((call["task"], call["phase"]) == held for call in stage.calls()), f"{held[1]} of {held[0]}", 2 * SECONDS)


def _go(stage: Stage, held: tuple[str, str]) -> None:
    stage.make_file(f"go-{'-'.join(held)}")


def _kill_daemon(world: World) -> int:
    (pid,) = world.daemons()
    with suppress(ProcessLookupError):
        os.kill(pid, 9)
    wait_for(lambda: world.daemons() not in ([pid], []), "another daemon", SECONDS)
    return pid


def main(write: Callable[[str], object] = print) -> int:
    """Play it and print what was seen."""
    world = World.make()
    story = begin(world)
    try:
        play(story)
        for row in table(story):
            write(row)
        for command, shown, code in story.seen:
            write(f"\n$ cueloop {command}\n{shown}(exit code {code})")
    finally:
        close(story)
        world.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

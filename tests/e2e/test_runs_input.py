"""What runs are given that is no good: programs that do not start, tasks that cannot be run, and agents that behave badly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.repository import STAMP, queue, task
from support.runs import Stage, Told, finished, machine_run, nothing_left, start
from support.wire import Wire
from support.world import Daemon, World

MIB = 1024 * 1024
Shared = tuple[World, Daemon]


def _of_another_machine(program: Path) -> None:
    program.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\0\xff\0" + bytes(100))


def _a_folder(program: Path) -> None:
    program.unlink()
    program.mkdir()


NO_PROGRAM: dict[str, tuple[Callable[[Path], object], str]] = {
    "not-installed": (Path.unlink, "not found"),
    "not-executable": (lambda program: program.chmod(0o644), "cannot be executed"),
    "a-folder": (_a_folder, "cannot be executed"),
    "no-interpreter": (lambda program: program.write_text("#!/nowhere/node\n"), "interpreter"),
    "of-another-machine": (_of_another_machine, "Exec format error"),
}


@pytest.mark.parametrize("name", NO_PROGRAM)
def test_a_program_that_cannot_be_started_is_named_with_the_remedy_e13(world: World, daemon: Daemon, name: str) -> None:
    spoil, words = NO_PROGRAM[name]
    stage = Stage.make(world)
    program = stage.folder / "claude"
    spoil(program)
    told = machine_run(stage)
    _has_failed(told, "cli_unavailable")
    assert told.error is not None
    assert str(program) in told.error["message"]
    assert words in told.error["message"]
    assert "npm install -g @anthropic-ai/claude-code" in told.error["detail"]
    assert stage.processes() == []
    assert world.repository.session.exists()


def test_a_name_is_looked_for_on_the_caller_s_path_which_is_told_e13(world: World, daemon: Daemon) -> None:
    stage = Stage.make(world, claude_bin="a-claude-of-my-own")
    told = machine_run(stage)
    _has_failed(told, "cli_unavailable")
    assert told.error is not None
    assert world.environ["PATH"] in told.error["detail"]
    (stage.folder / "claude").rename(stage.folder / "a-claude-of-my-own")
    path = f"{stage.folder}:{world.environ['PATH']}"
    told = machine_run(stage, "one", "--resume", environ={"PATH": path})
    assert told.outcome == "ran", "the path of this caller, not of the daemon"


def test_an_agent_that_wants_a_login_says_how(world: World, daemon: Daemon) -> None:
    words = "Invalid API key · Please run /login"
    stage = Stage.make(
        world,
        f"begin(); say(type='assistant', error='authentication_failed', message={{'content': [{{'type': 'text', 'text': {words!r}}}]}})\n"
        f"say(type='result', subtype='success', is_error=True, result={words!r}, session_id=ID); sys.exit(1)",
    )
    told = machine_run(stage)
    _has_failed(told, "cli_unavailable")
    assert told.error is not None
    assert words in told.error["message"]
    assert "claude auth login" in told.error["detail"]


TASKS = (
    task(1, "done", completed_at=STAMP),
    task(2, "todo", depends_on=["RQ-0005"]),
    task(3, "draft"),
    task(4, "todo", kind="group"),
    task(5, "todo"),
    task(6, "todo", scheduled_start="2099-01-01T00:00:00Z"),
    task(7, "rejected", completed_at=STAMP),
)
BAD_TASKS = {
    "RQ-0099": "no task RQ-0099 in the queue",
    "RQ-0001": "done",
    "RQ-0002": "RQ-0005",
    "RQ-0003": "draft",
    "RQ-0004": "group",
    "RQ-0006": "2099",
    "RQ-0007": "rejected",
}


@pytest.fixture(scope="module")
def stage_of_tasks(shared: Shared) -> Stage:
    world, _ = shared
    return Stage.make(world, tasks=TASKS)


@pytest.mark.parametrize("task_id", BAD_TASKS)
def test_a_task_that_cannot_be_run_is_one_sentence_and_changes_nothing(stage_of_tasks: Stage, task_id: str) -> None:
    before = stage_of_tasks.world.repository.queue.read_bytes()
    told = machine_run(stage_of_tasks, "one", "--id", task_id)
    _has_failed(told, "unknown")
    assert told.summary is not None
    assert told.summary["task_id"] is None
    (sentence,) = told.warnings
    assert task_id in sentence
    assert BAD_TASKS[task_id] in sentence
    assert sentence.count(". ") == 0
    assert stage_of_tasks.calls() == []
    assert stage_of_tasks.world.repository.queue.read_bytes() == before
    assert not stage_of_tasks.world.repository.session.exists()
    assert not stage_of_tasks.world.repository.lock.exists()


@pytest.mark.parametrize("plan", ["", "plan(' \\n\\t\\n');"], ids=["none", "blank"])
def test_a_plan_that_stays_empty_is_asked_for_once_more_and_ends_the_run(world: World, daemon: Daemon, plan: str) -> None:
    stage = Stage.make(world, f"begin(); {plan} end()", phases=2)
    told = machine_run(stage)
    _has_failed(told, "unknown")
    assert [call["phase"] for call in stage.calls()] == ["plan", "more"]
    assert stage.calls()[1]["argv"][-2] == "--resume", "the same conversation"
    assert "cache/plans/RQ-0001.md" in told.warnings[-1]
    assert "phase_completed" not in told.kinds
    assert stage.statuses() == ({"RQ-0001": "doing"}, {})


FLOOD = """
begin()
piece = (b"x" * 99 + b"\\n") * 10486
for _ in range(1000):
    rest = memoryview(piece)
    while rest:
        rest = rest[os.write(1, rest):]
end()
"""


def test_a_gigabyte_of_output_is_bounded_on_disk_and_in_memory(world: World) -> None:
    stage = Stage.make(world, FLOOD)
    stage.settings(run_output_limit_mib=64)
    daemon = world.start(at_home=True)
    with nothing_left(stage), daemon.connect() as wire:
        run_id = start(wire, stage)
        record = finished(wire, run_id, 90)
        total = wire.call("run.get", run_id=run_id)["run"]["output_bytes"]
    assert record["summary"]["outcome"] == "ran", "the last word was read"
    assert total > 1_000_000_000
    kept = [path.stat().st_size for path in (world.repository.ours / "runs" / run_id).glob("*.out.*")]
    assert 48 * MIB < sum(kept) <= 64 * MIB
    assert _peak(daemon) < 80 * MIB


def test_a_line_of_64_mib_ends_nothing_and_what_follows_is_read_e07(world: World, wire: Wire, daemon: Daemon) -> None:
    stage = Stage.make(world, "begin()\nfor _ in range(64): sys.stdout.write('x' * (1 << 20))\nprint(); text('after it'); end()")
    with nothing_left(stage), daemon.connect() as heard:
        heard.subscribe(kinds=["runner_output"])
        assert finished(wire, start(wire, stage), 60)["summary"]["outcome"] == "ran"
        events = _told_until_finished(heard)
    assert all(len(str(event)) < 1_000_000 for event in events)
    assert "after it" in "".join(event["payload"]["text"] for event in events)
    assert _peak(daemon) < 80 * MIB


def test_bytes_that_are_no_text_are_shown_as_well_as_can_be(world: World, daemon: Daemon) -> None:
    odd = (
        r"sys.stdout.buffer.write(b'\xff\xfe here\x00 and\n\x00\n'); sys.stdout.flush(); sys.stderr.buffer.write(b'\xc0\xaf\x00')"
    )
    stage = Stage.make(world, f"begin(); {odd}; text('after'); end()")
    told = machine_run(stage)
    assert (told.outcome, told.code) == ("ran", 0)
    assert " here" in told.output
    assert "after" in told.output
    assert "\0" not in told.output


def test_one_that_closes_its_output_and_stays_ends_when_it_ends_e02(world: World, daemon: Daemon) -> None:
    stage = Stage.make(world, "work(); sys.stdout.flush(); os.close(1); os.close(2); wait_for('go'); sys.exit(0)")
    stage.make_file("go")
    assert machine_run(stage).outcome == "ran"
    assert stage.processes() == []


def test_a_grandchild_that_keeps_the_pipe_ends_with_the_agent_e02(world: World, daemon: Daemon) -> None:
    stage = Stage.make(world, "import subprocess\nsubprocess.Popen(['sleep', '600']); work()")
    with nothing_left(stage):
        assert machine_run(stage).outcome == "ran"


NO_TERMINAL = """
begin()
try:
    open("/dev/tty")
except OSError as exc:
    text(f"no terminal: {exc.strerror}")
    end()
else:
    sys.exit(9)
"""


def test_there_is_no_terminal_to_ask_at_e15(world: World, daemon: Daemon) -> None:
    stage = Stage.make(world, NO_TERMINAL)
    told = machine_run(stage)
    assert told.outcome == "ran"
    assert "no terminal" in told.output


def test_a_queue_without_a_stamp_of_completion_is_told_with_the_task(world: World, daemon: Daemon) -> None:
    stage = Stage.make(world)
    world.repository.put(world.repository.queue, queue(task(1, "done"), task(2, "todo")))
    told = machine_run(stage)
    _has_failed(told, "queue_corrupted")
    assert "RQ-0001" in told.warnings[0]
    assert stage.calls() == []


def _has_failed(told: Told, code: str) -> None:
    assert (told.outcome, told.code) == ("failed", 1)
    assert told.error is not None
    assert told.error["code"] == code
    assert told.warnings[-1] == told.error["message"]


def _peak(daemon: Daemon) -> int:
    """The most bytes that the daemon ever had in memory."""
    (line,) = [line for line in Path(f"/proc/{daemon.pid}/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


def _told_until_finished(heard: Wire) -> list[dict[str, Any]]:
    """The envelopes up to the end of the run."""
    events = list[dict[str, Any]]()
    while (note := heard.note())["method"] != "run.finished":
        assert note["method"] == "event"
        events.append(note["params"]["event"])
    return events

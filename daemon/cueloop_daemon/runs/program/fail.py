"""Scope `fail`: a task cannot go on. Keep, revert or continue; the session stays in any case."""

from __future__ import annotations

import shlex
from datetime import timedelta

from pydantic import TypeAdapter

from cueloop_daemon.core.runs import ends
from cueloop_daemon.core.stamps import format_stamp, parse_stamp
from cueloop_daemon.runs.program.command import run_command
from cueloop_daemon.runs.program.common import TEXT, blocked, ended, failed, later, moment, notify, warn
from cueloop_daemon.runs.program.locking import unlock_queue
from cueloop_daemon.runs.state import Ending, FailState, State, TaskState
from cueloop_daemon.runs.types import Baseline, Journal, World
from cueloop_protocol.shapes import Question, QuestionChoice

ANSWER: TypeAdapter[tuple[str, str | None]] = TypeAdapter(tuple[str, str | None])
QUESTION: TypeAdapter[Question] = TypeAdapter(Question)

CHOICES = (
    QuestionChoice(choice="keep", title="Keep them", takes_text=False),
    QuestionChoice(choice="revert", title="Return to the tree as the task found it", takes_text=False),
    QuestionChoice(choice="continue", title="Tell the agent to go on", takes_text=True),
)


async def fail_task(state: State, journal: Journal, world: World) -> State:
    """What the revert mode or a person wants of the tree, and how the run ends; or the phase again, with a message."""
    task, fail = state.task, state.fail
    assert task is not None
    assert fail is not None
    await journal.heed()  # nothing is reverted after a cancel
    await warn(journal, world, "said", fail.reason, task_id=task.task_id, exit_code=fail.exit_code)
    choice, text = await _choice(task, fail, journal, world)
    if choice == "continue":
        message = text if text and text.strip() else "Go on with the task."
        after = task.model_copy(update={"message": message, "is_resumed": False, "is_worked": False})
        return state.model_copy(update={"next": "phase", "task": after, "fail": None})
    if choice == "revert":
        await _revert(task, journal, world)
    await notify(journal, world, "notified", f"{task.task_id} failed", fail.reason, kind="fail")
    await unlock_queue(journal, world)
    if fail.kind == "gate":
        at = await moment(journal, world, "blocked/observed")
        command = shlex.join(world.config.agent.ci_gate.argv)
        blocking = ends.ci_blocked(task.task_id, command, fail.exit_code, fail.pattern, at)
        await blocked(journal, world, "blocked", blocking)
        return ended(state, Ending(outcome="stalled", exit_code=1, blocking=blocking, error=fail.error))
    return failed(state, fail.error)


async def _choice(task: TaskState, fail: FailState, journal: Journal, world: World) -> tuple[str, str | None]:
    """keep, revert or continue. An interruption, nobody to ask, or no answer in time: keep."""
    mode = world.run.params.overrides.git_revert_mode or world.config.agent.git_revert_mode
    if fail.kind == "interrupted" or mode == "disabled":
        return "keep", None
    if mode == "enabled":
        return "revert", None
    if not world.run.params.interactive:
        return "keep", None
    name = await journal.note("question/id", later(world.new_id), TEXT)
    asked = await moment(journal, world, "question/at")
    question = _question(name, asked, task, fail, world)
    world.show(task_id=task.task_id, phase=None, state="asking")

    async def act(wanted: Question, again: bool) -> tuple[str, str | None]:
        return await journal.wait(world.questions.ask(wanted))

    return await journal.step("question", question, act, QUESTION, ANSWER)


def _question(name: str, asked: str, task: TaskState, fail: FailState, world: World) -> Question:
    begun = parse_stamp(asked)
    assert begun is not None, "it was written by us"
    return Question(
        question_id=name,
        run_id=world.run.run_id,
        task_id=task.task_id,
        message=f"Task {task.task_id} cannot go on. What about its changes?",
        detail=fail.reason,
        choices=CHOICES,
        default="keep",
        asked_at=asked,
        expires_at=format_stamp(begun + timedelta(minutes=world.question_minutes)),
    )


async def _revert(task: TaskState, journal: Journal, world: World) -> None:
    """Once begun it is finished, also when the run is cancelled meanwhile: half a tree is no tree."""
    if task.base_commit is None:
        await warn(journal, world, "revert/not", "The changes are kept: there is no tree to return to.", task_id=task.task_id)
        return
    base = Baseline(task.base_commit, task.base_head, task.base_dirty)
    done = await run_command(journal, world, "revert", "git", world.trees.revert_argv(base), must_end=True)
    lines = done.shown.strip().splitlines()
    if not done.is_success:
        text = f"Reverting failed, the changes are kept: {done.last_line}"
        await warn(journal, world, "revert/failed", text, task_id=task.task_id)
        return
    for number, line in enumerate(lines[:-1]):
        await warn(journal, world, f"revert/left/{number}", f"Not reverted: {line}.", task_id=task.task_id)
    text = f"The tree is as task {task.task_id} found it; commits of the agent are where they are."
    kept = f" What was undone is kept as {lines[-1]}." if lines else ""
    await warn(journal, world, "revert/said", f"{text}{kept}", task_id=task.task_id)

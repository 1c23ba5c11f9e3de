"""Scope `finish`: the last phase of the last iteration succeeded; the work is accepted and completed."""

from __future__ import annotations

from typing import Literal

from pydantic import TypeAdapter

from cueloop_daemon.runs.program.common import MAYBE_TEXT, NOTHING, ended, mode_of, moment, warn
from cueloop_daemon.runs.program.locking import unlock_queue
from cueloop_daemon.runs.program.owed import STATUS, complete
from cueloop_daemon.runs.state import Ending, State
from cueloop_daemon.runs.types import Journal, OwedRow, World

ROW: TypeAdapter[OwedRow] = TypeAdapter(OwedRow)


async def finish_task(state: State, journal: Journal, world: World) -> State:
    """Accept, complete, and go on or end."""
    task = state.task
    assert task is not None
    in_queue, in_done = await journal.note("status", lambda: _status(world, task.task_id), STATUS)
    left = _left(in_queue, in_done)
    if in_queue is None and in_done is None:
        await warn(
            journal, world, "gone", f"Task {task.task_id} is in neither file any more; its work is kept.", task_id=task.task_id
        )
    publish = world.run.params.overrides.git_publish_mode or world.config.agent.git_publish_mode
    if publish != "off" and task.base_dirty:
        await warn(
            journal, world, "unpublished", "The tree had changes before the run, so nothing is committed.", task_id=task.task_id
        )
        publish = "off"
    row = OwedRow(
        task_id=task.task_id,
        title=task.title,
        run_id=world.run.run_id,
        accepted_at=await moment(journal, world, "at"),
        left=left,
        session_etag=None,
        head=await journal.note("head", world.trees.head, MAYBE_TEXT) if publish != "off" else None,
        publish=publish,
    )
    await journal.step("accepted", row, lambda wanted, again: world.owed.accept(wanted), ROW, NOTHING)
    await complete(journal, world, row, "complete")
    measure = await journal.note("measure", world.trees.now, MAYBE_TEXT) if mode_of(world) == "loop" else None
    world.notify.send(f"{task.task_id} is done", task.title, kind="complete")
    await unlock_queue(journal, world)
    after = state.model_copy(
        update={
            "next": "between",
            "tasks_done": state.tasks_done + 1,
            "ran": state.ran + 1,
            "measure": measure,
            "task": None,
        }
    )
    if mode_of(world) == "one":
        return ended(after, Ending(outcome="ran", exit_code=0, task_id=task.task_id))
    return after


def _left(in_queue: str | None, in_done: str | None) -> Literal["doing", "done", "rejected", "archived"]:
    """What the agent made of the task. One that a person set back is left like a rejected one."""
    if in_queue == "doing":
        return "doing"
    if in_queue is None:
        return "archived"
    return "done" if in_queue == "done" else "rejected"


async def _status(world: World, task_id: str) -> tuple[str | None, str | None]:
    return world.files.status(task_id)

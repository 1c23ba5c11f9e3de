"""Scope `finish`: the last phase of the last iteration succeeded; the work is accepted and completed."""

from __future__ import annotations

from typing import Literal

from pydantic import TypeAdapter

from cueloop_daemon.runs.program.common import MAYBE_TEXT, NOTHING, ended, mode_of, moment, notify, warn
from cueloop_daemon.runs.program.locking import unlock_queue
from cueloop_daemon.runs.program.owed import STANDING, Standing, complete, standing_of
from cueloop_daemon.runs.state import Ending, State, TaskState
from cueloop_daemon.runs.types import Journal, OwedRow, World

ROW: TypeAdapter[OwedRow] = TypeAdapter(OwedRow)


async def finish_task(state: State, journal: Journal, world: World) -> State:
    """Accept, complete, and go on or end. From the acceptance on a cancel no longer takes anything back."""
    task = state.task
    assert task is not None
    standing = await journal.note("standing", lambda: standing_of(task.task_id, world), STANDING)
    row = await _accepted(task, standing, journal, world)
    is_complete = await complete(journal, world, row, standing, "complete")
    measure = await journal.note("measure", world.trees.now, MAYBE_TEXT) if mode_of(world) == "loop" else None
    await notify(journal, world, "notified", f"{task.task_id} is done", task.title, kind="complete")
    await unlock_queue(journal, world)
    update = {"tasks_done": state.tasks_done + 1, "ran": state.ran + 1, "measure": measure, "task": None, "next": "between"}
    after = state.model_copy(update=update)
    if mode_of(world) == "loop":
        return after
    if not is_complete and journal.cancelled:
        return ended(after, Ending(outcome="stopped", exit_code=0))
    return ended(after, Ending(outcome="ran", exit_code=0, task_id=task.task_id))


async def _accepted(task: TaskState, standing: Standing, journal: Journal, world: World) -> OwedRow:
    """What is owed from now on, on the medium."""
    left = _left(standing)
    if left == "archived" and standing.in_done is None:
        text = f"Task {task.task_id} is in neither file any more; its work is kept."
        await warn(journal, world, "gone", text, task_id=task.task_id)
    if left == "rejected" and standing.in_queue != "rejected":
        text = f"Task {task.task_id} was made {standing.in_queue} during the run, and is left so."
        await warn(journal, world, "reopened", text, task_id=task.task_id)
    publish = world.run.params.overrides.git_publish_mode or world.config.agent.git_publish_mode
    if publish != "off" and task.base_dirty:
        text = "The tree had changes before the run, so nothing is committed."
        await warn(journal, world, "unpublished", text, task_id=task.task_id)
        publish = "off"
    row = OwedRow(
        task_id=task.task_id,
        title=task.title,
        run_id=world.run.run_id,
        accepted_at=await moment(journal, world, "at"),
        left=left,
        session_etag=task.session_etag,
        head=await journal.note("head", world.trees.head, MAYBE_TEXT) if publish != "off" else None,
        publish=publish,
        tree=await journal.note("tree", world.trees.now, MAYBE_TEXT) if publish != "off" else None,
    )
    await journal.step("accepted", row, lambda wanted, again: world.owed.accept(wanted), ROW, NOTHING)
    return row


def _left(standing: Standing) -> Literal["doing", "done", "rejected", "archived"]:
    """What the agent made of the task. One that a person set back is left like a rejected one."""
    if standing.in_queue == "doing":
        return "doing"
    if standing.in_queue is None:
        return "archived"
    return "done" if standing.in_queue == "done" else "rejected"

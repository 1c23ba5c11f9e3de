"""What follows when the work of a task is accepted: done file, queue, publish, session. Each part may be repeated."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter

from cueloop_daemon.runs.program.begin_events import queue_changed
from cueloop_daemon.runs.program.common import NOTHING, TEXT, again, beside, later, together, warn
from cueloop_daemon.runs.program.publish import publish
from cueloop_daemon.runs.program.written import WRITTEN, tell
from cueloop_daemon.runs.types import Journal, OwedRow, SessionWrite, World

ROWS: TypeAdapter[tuple[OwedRow, ...]] = TypeAdapter(tuple[OwedRow, ...])


class Standing(BaseModel):
    """How things stand in queue and done file. `settled` are the tasks that are to be moved to the done file as they are."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    in_queue: str | None
    in_done: str | None
    settled: tuple[str, ...] = ()


STANDING: TypeAdapter[Standing] = TypeAdapter(Standing)


async def standing_of(task_id: str, world: World) -> Standing:
    """As it is now."""

    def look() -> Standing:
        in_queue, in_done = world.files.status(task_id)
        return Standing(in_queue=in_queue, in_done=in_done, settled=world.files.settled())

    return await beside(look)()


async def settle_owed(journal: Journal, world: World) -> None:
    """First of all: finish what an earlier run had accepted and could not finish."""
    rows = await journal.note("owed", later(world.owed.rows), ROWS)
    for row in rows:
        key = f"owed/{row.task_id}"
        text = f"The work of task {row.task_id} was accepted by run {row.run_id}; its completion is finished now."
        await warn(journal, world, f"{key}/said", text, task_id=row.task_id)
        standing = await journal.note(f"{key}/standing", lambda row=row: standing_of(row.task_id, world), STANDING)  # type: ignore[misc]  # bound for the loop
        await journal.step(f"{key}/taken-up", row.task_id, _nothing, TEXT, NOTHING)
        await complete(journal, world, row, standing, key)


async def _nothing(task_id: str, again: bool) -> None:
    """Only to have on record how things stood: what follows changes them, and what is said of it depends on them."""


async def complete(journal: Journal, world: World, row: OwedRow, standing: Standing, key: str) -> bool:
    """Make true what accepting means for this task; whether nothing is left of it.

    `standing` must be on record. What others changed since the work was accepted is left as they want it.
    """
    await _done_and_queue(journal, world, row, standing, key)
    await journal.converge(f"{key}/archive", again(beside(world.files.archive_settled, row.accepted_at)), TEXT)
    if standing.settled:
        await queue_changed(journal, world, f"{key}/archived")
    is_published = await publish(journal, world, row, f"{key}/publish")
    cleared = await journal.converge(f"{key}/clear", again(lambda: _clear_and_forget(world, row)), WRITTEN)
    await tell(journal, world, f"{key}/clear", cleared)
    if is_published:
        await journal.converge(f"{key}/settled", again(lambda: world.owed.settled(row.task_id)), NOTHING)
    return is_published


async def _done_and_queue(journal: Journal, world: World, row: OwedRow, standing: Standing, key: str) -> None:
    if row.left != "doing":
        return
    match _completion(standing):
        case "due":
            await journal.converge(f"{key}/done", again(beside(world.files.add_done, row.task_id, row.accepted_at)), TEXT)
            await journal.converge(f"{key}/queue", again(beside(world.files.remove_from_queue, row.task_id)), TEXT)
            await queue_changed(journal, world, f"{key}/moved")
        case "left":
            where = standing.in_queue or "gone"
            text = f"Task {row.task_id} is {where} by now, so it was left as it is."
            await warn(journal, world, f"{key}/left", text, task_id=row.task_id)
        case "made":
            return


def _completion(standing: Standing) -> Literal["due", "made", "left"]:
    """`made`: it is there already, or another hand did it. `left`: a person has made something else of the task meanwhile."""
    if standing.in_queue == "doing":
        return "due"
    if standing.in_done is not None and standing.in_queue in (None, "done"):
        return "made"
    return "left"


async def _clear_and_forget(world: World, row: OwedRow) -> SessionWrite:
    """Neither session nor kept tree is needed any more; git takes as long as the medium does, so they go at the same time."""
    return await together(lambda: _clear(world, row), lambda: world.trees.forget(row.task_id))


async def _clear(world: World, row: OwedRow) -> SessionWrite:
    """Another run's session is cleared only if it is the very one that was accepted: a later one may stand there by now."""
    if row.run_id == world.run.run_id:
        result = await world.sessions.clear("finished")
    elif row.session_etag is None:
        result = None
    else:
        result = await world.sessions.clear("finished", row.session_etag)
    return result or SessionWrite(etag="")

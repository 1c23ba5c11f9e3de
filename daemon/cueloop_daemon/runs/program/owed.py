"""What follows when the work of a task is accepted: done file, queue, publish, session. Each part may be repeated."""

from __future__ import annotations

from pydantic import TypeAdapter

from cueloop_daemon.runs.program.begin_events import queue_changed
from cueloop_daemon.runs.program.common import FLAG, NOTHING, TEXT, later, warn
from cueloop_daemon.runs.program.publish import publish
from cueloop_daemon.runs.program.written import WRITTEN, Written, written
from cueloop_daemon.runs.types import Journal, OwedRow, World

ROWS: TypeAdapter[tuple[OwedRow, ...]] = TypeAdapter(tuple[OwedRow, ...])
STATUS: TypeAdapter[tuple[str | None, str | None]] = TypeAdapter(tuple[str | None, str | None])


async def settle_owed(journal: Journal, world: World) -> None:
    """First of all: finish what an earlier run had accepted and could not finish."""
    rows = await journal.note("owed", later(world.owed.rows), ROWS)
    for row in rows:
        key = f"owed/{row.task_id}"
        await warn(
            journal,
            world,
            f"{key}/said",
            f"The work of task {row.task_id} was accepted by run {row.run_id}; its completion is finished now.",
            task_id=row.task_id,
        )
        await complete(journal, world, row, key)


async def complete(journal: Journal, world: World, row: OwedRow, key: str) -> None:
    """Make true what accepting means for this task. What others changed meanwhile is left as they want it."""
    if row.left == "doing":
        in_queue, in_done = await journal.note(f"{key}/status", lambda: _status(world, row.task_id), STATUS)
        if in_done is not None or in_queue == "doing":
            added = await journal.converge(f"{key}/done", lambda again: _add_done(world, row), TEXT)
            removed = await journal.converge(f"{key}/queue", lambda again: _remove(world, row), TEXT)
            if "changed" in (added, removed):
                await queue_changed(journal, world, f"{key}/said-queue")
        else:
            where = "gone" if in_queue is None else in_queue
            await warn(
                journal,
                world,
                f"{key}/left",
                f"Task {row.task_id} is {where} by now, so it was left as it is.",
                task_id=row.task_id,
            )
    archived = await journal.converge(f"{key}/archive", lambda again: _archive(world), TEXT)
    if archived == "changed":
        await queue_changed(journal, world, f"{key}/said-archive")
    if row.publish != "off":
        await publish(journal, world, row, f"{key}/publish")
    cleared = await journal.converge(f"{key}/clear", lambda again: _clear(world, row), WRITTEN)
    for number, path in enumerate(cleared.foreign):
        await warn(
            journal, world, f"{key}/foreign/{number}", f"The session file was somebody else's by then; it is kept as {path}."
        )
    await journal.converge(f"{key}/settled", lambda again: world.owed.settled(row.task_id), NOTHING)


async def _status(world: World, task_id: str) -> tuple[str | None, str | None]:
    return world.files.status(task_id)


async def _add_done(world: World, row: OwedRow) -> str:
    return world.files.add_done(row.task_id, row.accepted_at)


async def _remove(world: World, row: OwedRow) -> str:
    return world.files.remove_from_queue(row.task_id)


async def _archive(world: World) -> str:
    return world.files.archive_settled()


async def _clear(world: World, row: OwedRow) -> Written:
    own = row.run_id == world.run.run_id
    result = await world.sessions.clear("finished", None if own else row.session_etag)
    return Written(etag="") if result is None else written(result)


__all__ = ["FLAG", "complete", "settle_owed"]

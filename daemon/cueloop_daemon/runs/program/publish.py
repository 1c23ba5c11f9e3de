"""Publishing accepted work: a commit with trailers that name task and run, and a push, as children of the shim."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, TypeAdapter

from cueloop_daemon.runs.program.command import Done, run_command
from cueloop_daemon.runs.program.common import warn
from cueloop_daemon.runs.types import Journal, OwedRow, RunCancelled, World


class Place(BaseModel):
    """Where the branch is. `has_moved`: not where the work was accepted, or the tree is another."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    is_committed: bool
    has_moved: bool


PLACE: TypeAdapter[Place] = TypeAdapter(Place)


async def publish(journal: Journal, world: World, row: OwedRow, key: str) -> bool:
    """Commit, and push where that is wanted; False if something of it is still to be done. What fails is said.

    A cancelled run finishes its commit and leaves the push to the next one.
    """
    if row.publish == "off":
        return True
    place = await journal.note(f"{key}/place", lambda: _place(world, row), PLACE)
    if not place.is_committed:
        if place.has_moved:
            text = f"The work of task {row.task_id} is not committed: branch or tree are not as it left them."
            await warn(journal, world, f"{key}/not", text, task_id=row.task_id)
            return True
        argv = world.trees.commit_argv(row.task_id, row.title, row.run_id)
        done = await run_command(journal, world, f"{key}/commit", "git", argv, must_end=True)
        if not done.is_success:
            await _failed(journal, world, f"{key}/failed", "Committing", row, done)
            return False
    if row.publish == "commit":
        return True
    try:
        await journal.heed()
        done = await run_command(journal, world, f"{key}/push", "git", world.trees.push_argv())
    except RunCancelled:
        return False
    if not done.is_success:
        await _failed(journal, world, f"{key}/unpushed", "Pushing", row, done)
    return done.is_success


async def _place(world: World, row: OwedRow) -> Place:
    """Only another run than the one that accepted the work has to ask whether things are still as it left them."""
    trees = world.trees
    is_committed = await trees.has_commit(row.task_id, row.run_id, row.head)
    is_own = row.run_id == world.run.run_id
    has_moved = not is_own and (await trees.head() != row.head or (row.tree is not None and await trees.now() != row.tree))
    return Place(is_committed=is_committed, has_moved=has_moved)


async def _failed(journal: Journal, world: World, key: str, what: str, row: OwedRow, done: Done) -> None:
    text = f"{what} the work of task {row.task_id} failed, and is tried again by the next run: {done.last_line}"
    await warn(journal, world, key, text, task_id=row.task_id, exit_code=done.exit_code)

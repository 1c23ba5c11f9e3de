"""Publishing accepted work: a commit with trailers that name task and run, and a push, as children of the shim."""

from __future__ import annotations

from cueloop_daemon.runs.program.child import run_command
from cueloop_daemon.runs.program.common import FLAG, later, warn
from cueloop_daemon.runs.types import Journal, OwedRow, World


async def publish(journal: Journal, world: World, row: OwedRow, key: str) -> None:
    """Commit, and push where that is wanted. What fails is said; the work stays in the tree."""
    there = await journal.note(f"{key}/there", lambda: world.trees.has_commit(row.task_id, row.run_id, row.head), FLAG)
    if not there:
        head = await journal.note(f"{key}/moved", lambda: _has_moved(world, row), FLAG)
        if head and row.run_id != world.run.run_id:
            await warn(
                journal,
                world,
                f"{key}/not",
                f"The work of task {row.task_id} is not committed: the branch moved on.",
                task_id=row.task_id,
            )
            return
        argv = world.trees.commit_argv(row.task_id, row.title, row.run_id)
        done = await run_command(journal, world, f"{key}/commit", "git", argv)
        if done.exit_code != 0:
            await warn(
                journal,
                world,
                f"{key}/failed",
                f"Committing the work of task {row.task_id} failed: {done.last_line}",
                task_id=row.task_id,
                exit_code=done.exit_code,
            )
            return
    if row.publish == "commit_and_push":
        done = await run_command(journal, world, f"{key}/push", "git", world.trees.push_argv())
        if done.exit_code != 0:
            await warn(
                journal,
                world,
                f"{key}/unpushed",
                f"Pushing the work of task {row.task_id} failed: {done.last_line}",
                task_id=row.task_id,
                exit_code=done.exit_code,
            )


async def _has_moved(world: World, row: OwedRow) -> bool:
    return await world.trees.head() != row.head


__all__ = ["later", "publish"]

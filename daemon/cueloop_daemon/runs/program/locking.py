"""The queue lock, as the program takes and lets it go."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, TypeAdapter

from cueloop_daemon.core.runs import ends
from cueloop_daemon.runs.program.common import NOTHING, NUMBER, again, blocked, ended, later, mode_of, moment
from cueloop_daemon.runs.state import Ending, State
from cueloop_daemon.runs.types import Journal, LockHeld, World


class _Lock(BaseModel):
    model_config = ConfigDict(frozen=True, defer_build=True)

    is_ours: bool
    pid: int | None = None
    label: str | None = None
    started_at: str | None = None


LOCK: TypeAdapter[_Lock] = TypeAdapter(_Lock)


async def lock_queue(state: State, journal: Journal, world: World) -> State | None:
    """Take the lock for the next task; the state that ends the run if somebody else has it.

    What became of all earlier orders is on record by now, so the shim may forget them.
    """
    number = await journal.note("lock/number", later(journal.order_number), NUMBER)
    await journal.converge("lock/acknowledged", again(lambda: world.link.acknowledge(number - 1)), NOTHING)
    at = await moment(journal, world, "lock/at")
    found = await journal.converge("lock", again(lambda: _take(world, number, at)), LOCK)
    if found.is_ours:
        return None
    path = f"{world.root.path}/.cueloop/lock"
    blocking = ends.lock_blocked(path, found.label, found.pid, found.started_at, at)
    await blocked(journal, world, "lock/blocked", blocking)
    error = ends.error("resource_busy", blocking.message, blocking.detail)
    return ended(state, Ending(outcome="stalled", exit_code=1, blocking=blocking, error=error))


async def unlock_queue(journal: Journal, world: World, key: str = "unlock") -> None:
    """Let the lock go, if it is ours."""
    number = await journal.note(f"{key}/number", later(journal.order_number), NUMBER)
    await journal.converge(key, again(lambda: world.link.unlock(number)), NOTHING)


async def _take(world: World, number: int, at: str) -> _Lock:
    made = await world.link.lock(number, f"run {mode_of(world)}", f"cueloopd run {world.run.run_id}", at)
    if isinstance(made, LockHeld):
        return _Lock(is_ours=False, pid=made.pid, label=made.label, started_at=made.started_at)
    return _Lock(is_ours=True)

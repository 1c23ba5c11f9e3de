"""Scope `close`: whatever child there is ends, the lock is let go, and a person is told."""

from __future__ import annotations

from cueloop_daemon.runs.program.child import GRACE
from cueloop_daemon.runs.program.common import NOTHING, again, mode_of, notify
from cueloop_daemon.runs.program.locking import unlock_queue
from cueloop_daemon.runs.state import State
from cueloop_daemon.runs.types import Journal, World


async def close_run(state: State, journal: Journal, world: World) -> State:
    """The run is over once this state is stored; its summary is made from the ending."""
    assert state.ending is not None
    await journal.converge("child", again(lambda: world.link.end_child(GRACE)), NOTHING)
    await unlock_queue(journal, world)
    if mode_of(world) == "loop" and state.ending.outcome in ("completed", "no_candidates"):
        await notify(journal, world, "notified", "The loop has ended", f"{state.ran} task(s) done.", kind="loop")
    return state.model_copy(update={"next": "over"})

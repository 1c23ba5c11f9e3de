"""What a run does that finds nothing to run: wait, where that is wanted, or end."""

from __future__ import annotations

from cueloop_daemon.core.runs import ends
from cueloop_daemon.runs.program.common import blocked, ended, mode_of
from cueloop_daemon.runs.program.locking import unlock_queue
from cueloop_daemon.runs.state import Ending, State
from cueloop_daemon.runs.types import Journal, World
from cueloop_protocol.documents.blocking import BlockingState

BEGUN = "begun"
"""`State.wait_until` of a wait that has just begun."""
NEVER = "none"
"""`State.wait_until` of a wait that has no end of its own."""
OVER = "over"
"""`State.wait_until` of a wait that has ended without work."""


def waits_for(kind: str, world: World) -> bool:
    """Whether a loop waits when this blocking reason keeps it from working."""
    flags, loop = world.run.params.overrides, world.config.loop
    if kind == "idle":
        return flags.wait_when_empty or loop.wait_when_empty
    return flags.wait_when_blocked or loop.wait_when_blocked


async def wait_or_end(state: State, blocking: BlockingState, journal: Journal, world: World) -> State:
    """Wait for work without the lock; or say why there is none, and end. A reason that was said is not said again."""
    kind = blocking.reason.kind
    if kind != state.wait_kind:
        await blocked(journal, world, "nothing", blocking)
    if mode_of(world) == "loop" and waits_for(kind, world) and state.wait_until != OVER:
        await unlock_queue(journal, world)
        return state.model_copy(update={"next": "between", "wait_until": state.wait_until or BEGUN, "wait_kind": kind})
    return ended(state, Ending(outcome=ends.outcome_of(blocking), exit_code=0, blocking=blocking))

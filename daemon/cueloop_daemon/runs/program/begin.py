"""Scope `begin`: take the queue lock, settle what is owed, decide again, and choose a task; or say why there is none."""

from __future__ import annotations

from datetime import timedelta

from cueloop_daemon.core.request import Request, UnderLock, again_under_lock, request_of
from cueloop_daemon.core.runs import ends
from cueloop_daemon.core.runs.beginning import BEGINNING, Bad, Chosen, Nothing, Refused, Wish, begin
from cueloop_daemon.runs.program.begin_events import queue_changed
from cueloop_daemon.runs.program.common import (
    TEXT,
    TEXTS,
    beside,
    blocked,
    decided,
    ended,
    failed,
    mode_of,
    moment,
    warn,
)
from cueloop_daemon.runs.program.locking import lock_queue
from cueloop_daemon.runs.program.owed import settle_owed
from cueloop_daemon.runs.program.start import start_task
from cueloop_daemon.runs.program.waiting import wait_or_end
from cueloop_daemon.runs.state import Ending, State
from cueloop_daemon.runs.types import Journal, World

SETTLE = timedelta(milliseconds=300)
"""After so long without a change a session file that cannot be read is no longer taken for half-written."""
MOST_LOOKS = 20
"""A file that is never left alone is judged as it is in the end."""


async def begin_task(state: State, journal: Journal, world: World) -> State:
    """The next task, begun; or the ending that there is instead."""
    await journal.heed()
    held = await lock_queue(state, journal, world)
    if held is not None:
        return held
    if state.number == 0:
        await settle_owed(journal, world)
        await _repair(journal, world)
    found = await journal.note("beginning", lambda: _look(state, journal, world), BEGINNING)
    if found.decision is not None and found.decision != state.told and (state.number == 0 or isinstance(found, Refused)):
        await decided(journal, world, "decision", found.decision)
        state = state.model_copy(update={"told": found.decision})
    match found:
        case Refused():
            return await _refused(state, found, journal, world)
        case Bad():
            await warn(journal, world, "bad", found.message)
            return failed(state, ends.error(found.code, found.message, found.detail))
        case Nothing():
            return await wait_or_end(state, found.blocking, journal, world)
        case Chosen():
            return await start_task(state, found, journal, world)


async def _look(state: State, journal: Journal, world: World) -> Refused | Bad | Nothing | Chosen:
    if state.number == 0:
        request = again_under_lock(request_of(world.run.params), state.decision)
    else:
        request = Request(mode="loop", resume=False, include_draft=state.include_draft, under_lock=UnderLock(None))
    looks = 0
    while True:
        facts, looks = await world.look(), looks + 1
        found = begin(facts, Wish(request, state.number == 0), world.now())
        if not isinstance(found, Refused) or not facts.settling or looks == MOST_LOOKS:
            return found
        await journal.wait(world.sleep_until(world.now() + SETTLE))


async def _refused(state: State, found: Refused, journal: Journal, world: World) -> State:
    decision = found.decision
    blocking = ends.refused(decision, await moment(journal, world, "refused/observed"))
    await blocked(journal, world, "refused", blocking)
    code = ends.exit_of_refusal(mode_of(world))
    said = ends.error("unknown", decision.message, decision.detail) if code else None
    return ended(state, Ending(outcome="stalled", exit_code=code, blocking=blocking, error=said))


async def _repair(journal: Journal, world: World) -> None:
    """Finish completions that another tool, or a crash without a record, broke off between done file and queue."""
    for task_id in await journal.note("twice", beside(world.files.completed_twice), TEXTS):
        key = f"twice/{task_id}"
        await warn(
            journal, world, f"{key}/said", f"Task {task_id} was done already and is taken out of the queue.", task_id=task_id
        )

        async def act(name: str, again: bool) -> str:
            return await beside(world.files.remove_from_queue, name)()

        await journal.step(key, task_id, act, TEXT, TEXT)
        await queue_changed(journal, world, f"{key}/queue")

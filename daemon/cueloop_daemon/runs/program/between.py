"""Scope `between`: in a loop, after a task or while there is none: the limit, the wish to stop, the wait for work."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

from cueloop_protocol.documents.envelope import BlockedStateCleared
from pydantic import TypeAdapter

from cueloop_daemon.core.model import QueueFile
from cueloop_daemon.core.selection import next_task
from cueloop_daemon.core.stamps import format_stamp, parse_stamp
from cueloop_daemon.runs.program.common import MAYBE_TEXT, NOTHING, ended, later, mode_of, moment
from cueloop_daemon.runs.state import Ending, State
from cueloop_daemon.runs.types import Journal, World

OVER = "over"
"""`State.wait_until` of a wait that has ended without work."""

Found = Literal["work", "stop", "timeout"]
FOUND: TypeAdapter[Found] = TypeAdapter(Found)


async def between_tasks(state: State, journal: Journal, world: World) -> State:
    """The next task, or the loop's end."""
    if state.max_tasks and state.tasks_done >= state.max_tasks and state.ran:
        return ended(state, Ending(outcome="completed", exit_code=0))
    marker = await journal.note("marker", later(world.stop_marker.seen), MAYBE_TEXT)
    if marker is not None or await journal.note("wish", later(lambda: journal.stop_wanted), TypeAdapter(bool)):
        if marker is not None:
            await journal.converge("marker/honoured", lambda again: _remove(world, marker), NOTHING)
        return ended(state, Ending(outcome="stopped", exit_code=0))
    if state.wait_until is None:
        return state.model_copy(update={"next": "begin"})
    return await _wait(state, journal, world)


async def _wait(state: State, journal: Journal, world: World) -> State:
    flags, loop = world.run.params.overrides, world.config.loop
    limit = loop.wait_timeout_seconds if flags.wait_timeout_seconds is None else flags.wait_timeout_seconds
    until = state.wait_until
    if until == "begun":
        until = await journal.note(
            "until", later(lambda: format_stamp(world.now() + timedelta(seconds=limit)) if limit else "none"), TypeAdapter(str)
        )
    deadline = None if until is None else parse_stamp(until)
    world.show(task_id=None, phase=None, state="waiting")
    found = await journal.note("found", lambda: journal.wait(_until_work(state, journal, world, deadline)), FOUND)
    world.show(task_id=None, phase=None, state="running")
    if found == "stop":
        return state.model_copy(update={"next": "between", "wait_until": until})
    if found == "timeout":
        return state.model_copy(update={"next": "begin", "wait_until": OVER})
    at = await moment(journal, world, "cleared/at")
    await journal.emit("cleared", BlockedStateCleared(timestamp=at, run_mode=mode_of(world)))
    if flags.notify_when_unblocked or loop.notify_when_unblocked:
        world.notify.send("CueLoop goes on", "There is work again.", kind="loop")
    return state.model_copy(update={"next": "begin", "wait_until": None})


async def _until_work(state: State, journal: Journal, world: World, deadline: datetime | None) -> Found:
    """Look from time to time; nothing is recorded meanwhile, however long it takes."""
    flags, loop = world.run.params.overrides, world.config.loop
    pause = timedelta(
        milliseconds=max(50, min(flags.wait_poll_ms or loop.wait_poll_ms, flags.empty_poll_ms or loop.empty_poll_ms))
    )
    while True:
        if world.stop_marker.seen() is not None or journal.stop_wanted:
            return "stop"
        facts = await world.look()
        if isinstance(facts.queue, QueueFile):
            done = facts.done if isinstance(facts.done, QueueFile) else None
            if next_task(facts.queue, done, world.now(), include_draft=state.include_draft) is not None:
                return "work"
        if deadline is not None and world.now() >= deadline:
            return "timeout"
        await world.sleep_until(min(world.now() + pause, deadline) if deadline is not None else world.now() + pause)


async def _remove(world: World, marker: str) -> None:
    world.stop_marker.remove(marker)

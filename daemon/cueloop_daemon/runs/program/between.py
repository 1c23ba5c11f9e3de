"""Scope `between`: in a loop, after a task or while there is none: the limit, the wish to stop, the wait for work."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

from pydantic import TypeAdapter

from cueloop_daemon.core.model import QueueFile, Snapshot, Unusable
from cueloop_daemon.core.runs.beginning import why_nothing
from cueloop_daemon.core.runs.taking_up import Count, is_reached
from cueloop_daemon.core.selection import next_task
from cueloop_daemon.core.stamps import format_stamp, parse_stamp
from cueloop_daemon.runs.program.common import FLAG, MAYBE_TEXT, TEXT, ended, later, mode_of, moment, notify
from cueloop_daemon.runs.program.marker import remove_marker
from cueloop_daemon.runs.program.waiting import BEGUN, NEVER, OVER
from cueloop_daemon.runs.state import Ending, State
from cueloop_daemon.runs.types import Journal, World
from cueloop_protocol.documents.envelope import BlockedStateCleared

Found = Literal["work", "stop", "timeout", "other"]
"""`other`: there is still nothing to run, but for another reason."""
FOUND: TypeAdapter[Found] = TypeAdapter(Found)

LEAST_POLL_MS = 50


async def between_tasks(state: State, journal: Journal, world: World) -> State:
    """The next task, or the loop's end."""
    if state.ran and is_reached(Count(state.tasks_done, state.max_tasks)):
        return ended(state, Ending(outcome="completed", exit_code=0))
    marker = await journal.note("marker", later(world.stop_marker.seen), MAYBE_TEXT)
    if marker is not None:
        await remove_marker(journal, world, "marker/honoured", marker)
    if marker is not None or await journal.note("wish", later(lambda: journal.stop_wanted), FLAG):
        return ended(state, Ending(outcome="stopped", exit_code=0))
    if state.wait_until is None:
        return state.model_copy(update={"next": "begin"})
    return await _wait(state, journal, world)


async def _wait(state: State, journal: Journal, world: World) -> State:
    flags, loop = world.run.params.overrides, world.config.loop
    until = state.wait_until or BEGUN
    if until == BEGUN:
        limit = loop.wait_timeout_seconds if flags.wait_timeout_seconds is None else flags.wait_timeout_seconds
        until = await journal.note("until", later(lambda: _end_of_wait(world.now(), limit)), TEXT)
    deadline = parse_stamp(until)
    world.show(task_id=None, phase=None, state="waiting")
    found = await journal.note("found", lambda: journal.wait(_until_work(state, journal, world, deadline)), FOUND)
    world.show(task_id=None, phase=None, state="running")
    match found:
        case "stop":
            return state.model_copy(update={"next": "between", "wait_until": until})
        case "timeout":
            return state.model_copy(update={"next": "begin", "wait_until": OVER})
        case "other":
            return state.model_copy(update={"next": "begin", "wait_until": until})
        case "work":
            at = await moment(journal, world, "cleared/at")
            await journal.emit("cleared", BlockedStateCleared(timestamp=at, run_mode=mode_of(world)))
            if flags.notify_when_unblocked or loop.notify_when_unblocked:
                await notify(journal, world, "notified", "CueLoop goes on", "There is work again.", kind="loop")
            return state.model_copy(update={"next": "begin", "wait_until": None, "wait_kind": None})


def _end_of_wait(now: datetime, limit: int) -> str:
    """`limit` in seconds, 0: none. A moment that no calendar has is none, too."""
    try:
        return format_stamp(now + timedelta(seconds=limit)) if limit else NEVER
    except OverflowError:
        return NEVER


async def _until_work(state: State, journal: Journal, world: World, deadline: datetime | None) -> Found:
    """Look from time to time; nothing is recorded meanwhile, however long it takes."""
    pause = timedelta(milliseconds=max(LEAST_POLL_MS, _poll_ms(state, world)))
    while True:
        if world.stop_marker.seen() is not None or journal.stop_wanted:
            return "stop"
        found = _look(await world.look(), state, world)
        if found is not None:
            return found
        now = world.now()
        if deadline is not None and now >= deadline:
            return "timeout"
        await world.sleep_until(now + pause if deadline is None else min(now + pause, deadline))


def _poll_ms(state: State, world: World) -> int:
    flags, loop = world.run.params.overrides, world.config.loop
    if state.wait_kind == "idle":
        return flags.empty_poll_ms or loop.empty_poll_ms
    return flags.wait_poll_ms or loop.wait_poll_ms


def _look(facts: Snapshot, state: State, world: World) -> Found | None:
    """None: things are as they were. What cannot be read just now may be read again in a moment."""
    if not isinstance(facts.queue, QueueFile) or isinstance(facts.config, Unusable):
        return None
    done = facts.done if isinstance(facts.done, QueueFile) else None
    if next_task(facts.queue, done, world.now(), include_draft=state.include_draft) is not None:
        return "work"
    why = why_nothing(facts.queue, done, facts.config, world.now(), state.include_draft)
    return None if why.reason.kind == state.wait_kind else "other"

"""A sign of life in the session file each minute, while a phase runs. Ended and waited for before anybody else writes the file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from cueloop_protocol.documents.envelope import Warned
from cueloop_protocol.documents.session import Session

from cueloop_daemon.runs.program.common import mode_of, stamp
from cueloop_daemon.runs.types import Journal, World
from cueloop_daemon.store.not_writable import NotWritable

T = TypeVar("T")

EVERY = 60.0
"""Seconds; contract section 2 asks for a refresh each minute."""


async def with_heartbeat(journal: Journal, world: World, session: Session, body: Callable[[], Awaitable[T]]) -> T:
    """The result of `body`, with the session refreshed meanwhile. What `body` raises comes out as it is."""
    raised: Exception | None = None
    results: list[T] = []
    async with anyio.create_task_group() as beside:
        beside.start_soon(_beat, journal, world, session)
        try:
            results.append(await body())
        except Exception as exc:
            raised = exc  # inside the group it would come out wrapped, and no scope's `except` would fit
        beside.cancel_scope.cancel()
    if raised is not None:
        raise raised
    return results[0]


async def _beat(journal: Journal, world: World, session: Session) -> None:
    while True:
        await anyio.sleep(EVERY)
        try:
            result = await world.sessions.save(session)
        except NotWritable as exc:
            journal.say(Warned(timestamp=stamp(world), run_mode=mode_of(world), message=f"{exc.message} {exc.remedy}"))
            continue
        for path in result.foreign:
            text = f"Somebody else wrote the session file; theirs is kept as {path}."
            journal.say(Warned(timestamp=stamp(world), run_mode=mode_of(world), message=text))

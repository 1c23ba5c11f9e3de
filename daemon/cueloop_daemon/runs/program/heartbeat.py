"""A sign of life in the session file each minute, while a phase runs. Ended and waited for before anybody else writes the file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from cueloop_daemon.runs.beside import accompanied
from cueloop_daemon.runs.program.common import mode_of, stamp
from cueloop_daemon.runs.program.written import told
from cueloop_daemon.runs.types import Journal, World
from cueloop_daemon.store.not_writable import NotWritable
from cueloop_daemon.store.outcomes import OwnershipLost
from cueloop_protocol.documents.envelope import Warned
from cueloop_protocol.documents.session import Session

T = TypeVar("T")

EVERY = 60.0
"""Seconds; contract section 2 asks for a refresh each minute."""


async def with_heartbeat(
    journal: Journal, world: World, session: Session, body: Callable[[], Awaitable[T]], every: float = EVERY
) -> T:
    """The result of `body`, with the session refreshed meanwhile. What `body` raises comes out as it is; so does OwnershipLost."""
    return await accompanied(body, lambda: _beat(journal, world, session, every))


async def _beat(journal: Journal, world: World, session: Session, every: float) -> None:
    said: str | None = None
    while True:
        await anyio.sleep(every)
        try:
            result = await world.sessions.save(session)
        except OwnershipLost:
            raise
        except NotWritable as exc:
            text = f"{exc.message} {exc.remedy}"
            if text != said:  # once, not each minute
                _say(journal, world, text)
            said = text
            continue
        said = None
        for text in told(result):
            _say(journal, world, text)


def _say(journal: Journal, world: World, text: str) -> None:
    journal.say(Warned(timestamp=stamp(world), run_mode=mode_of(world), message=text))

"""Letting the oldest runs go."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from cueloop_daemon.core.model import SessionLoaded
from cueloop_daemon.runs import queries
from cueloop_daemon.runs.active import view_from
from cueloop_daemon.runs.batches import forget_left
from cueloop_daemon.runs.queries import RunRow
from cueloop_daemon.runs.surroundings import Surroundings
from cueloop_daemon.store.sqlite import DbError


async def prune(around: Surroundings, row: RunRow) -> None:
    """Let runs beyond the newest go, after `row` has ended. One whose task is in the session may still be gone on with, and stays."""
    with suppress(DbError, ValueError):
        session = (await around.look(row.request.caller)).session
        kept = session.session.task_id.strip() if isinstance(session, SessionLoaded) else None
        await around.lane.keep_ballast()
        for old in await around.lane.read(lambda db: queries.superfluous(db, around.history())):
            if kept is None or view_from(old.view).task_id != kept:
                await around.carriers.discard(old.run_id)
                await around.lane.once(partial(queries.erase, run_id=old.run_id), durable=False)
                await around.lane.once(partial(forget_left, task_id=kept), durable=False)

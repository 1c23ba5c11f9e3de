"""The next moment at which an answer changes although no file does (architecture, "The decision")."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from cueloop_daemon.core.model import QueueFile, SessionLoaded, Snapshot
from cueloop_daemon.core.selection import SETTLED, due_at
from cueloop_daemon.core.stamps import Age, age_of


def horizon(snapshot: Snapshot, now: datetime) -> datetime | None:
    """A moment after `now` (aware) until which every answer stands, None if time alone changes nothing.

    A session's age grows by a whole hour, which is also when it times out, since the limit is in whole hours; a time stamp
    ahead of the clock comes within tolerance; a scheduled task becomes due.
    """
    return min(_changes(snapshot, now), default=None)


def _changes(snapshot: Snapshot, now: datetime) -> Iterator[datetime]:
    if isinstance(snapshot.session, SessionLoaded):
        age = age_of(snapshot.session.session.last_updated_at, now)
        change = age.next_hour if isinstance(age, Age) else age.known_from
        if change is not None:
            yield change
    if isinstance(snapshot.queue, QueueFile):
        for row in snapshot.queue.rows:
            if row.scheduled_start is not None and row.status not in SETTLED:
                due = due_at(row, now)
                if due is not None:
                    yield due

"""Where a journal writes, what may go wrong there, and the places at which a life can end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

from cueloop_daemon.runs.records import Batch

Point = Literal["before", "intent", "acted", "result"]
"""A place where a life can end: before an entry, its intent on record, its act done, its result remembered."""

Probe = Callable[[str, Point], None]
"""Called at each such place, with the entry's key; tests end the process or the task there."""


class Unrecordable(Exception):
    """The run can no longer be written down; it must be ended without its record. `str()` is one clause for people."""


class Unwritable(Exception):
    """The medium takes nothing now (full, no access): the same commit may work later. Nothing of it was kept."""


class Store(Protocol):
    """Where a journal writes."""

    async def commit(self, batch: Batch) -> None:
        """On the medium when it returns, whole or not at all. Raises Unwritable, Unrecordable."""
        ...


def no_probe(key: str, point: Point) -> None:
    """Production has no place to die at."""

"""The values of the event log: what is published, what is kept, what a subscriber wants to see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from cueloop_daemon.store.sqlite import Connect, connect
from cueloop_protocol.values import dataclass

Method = Literal["event", "run.finished", "question", "question.resolved"]
"""The notifications that are kept in the log. (`gap` is made for one subscriber and `daemon.closing` for one connection.)"""


class Mark(NamedTuple):
    """How far a run has been told: whatever of this source is marked at or below `position` is told, in whichever life."""

    run_id: str
    source: str
    position: int


@dataclass(frozen=True, slots=True)
class NewEvent:
    """One notification to be published.

    `params` is its params as one JSON object, without `subscription` and `cursor`; white space between tokens is allowed.
    `kind` is the envelope's kind for the method `event`, else None. `run_id` names the run it belongs to, None for the watch.
    `audience` is the key of the caller whose configuration it is about, None if it is for everybody. With a `mark` it is told
    at most once: the mark is committed with it, and what is at or below the mark that stands is dropped without a seq.
    """

    method: Method
    kind: str | None
    run_id: str | None
    audience: str | None
    params: bytes
    mark: Mark | None = None


class Row(NamedTuple):
    """An event with its place in the log. `params` is one line."""

    seq: int
    method: Method
    kind: str | None
    run_id: str | None
    audience: str | None
    params: bytes


@dataclass(frozen=True, slots=True)
class Filter:
    """What a subscriber wants. None wants all. A gap is never filtered.

    `kinds` applies to the method `event` alone. `run_id` leaves out what belongs to other runs. `audience` leaves out what
    is for other callers.
    """

    kinds: frozenset[str] | None = None
    run_id: str | None = None
    audience: str | None = None

    def wants(self, row: Row) -> bool:
        """Whether the row is for this subscriber."""
        if self.kinds is not None and row.method == "event" and row.kind not in self.kinds:
            return False
        if self.run_id is not None and row.run_id is not None and row.run_id != self.run_id:
            return False
        return self.audience is None or row.audience is None or row.audience == self.audience


class Announced(NamedTuple):
    """What the watch announced last to an audience, in the announcer's own words; kept over restarts. None forgets it."""

    audience: str
    state: bytes | None


@dataclass(frozen=True, slots=True)
class Group:
    """What is committed together: all of it or nothing. Rows are contiguous."""

    rows: tuple[Row, ...] = ()
    announced: tuple[Announced, ...] = ()
    revision: int | None = None
    """A new revision floor to keep, see `revisions`."""
    marks: tuple[Mark, ...] = ()
    forgotten: tuple[str, ...] = ()
    """Runs whose marks are needed no more."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of the log: the rows of it that somebody wanted, and how far it reached (`reached` is the last seq looked at)."""

    rows: tuple[Row, ...]
    reached: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where the log is and what it needs of the world.

    `path` is absolute, and at most `LONGEST_PATH` bytes with links resolved. `make_folder` makes the folder it lies in, if it
    is missing, or raises OSError. `boot_id` is the kernel's id of this boot, "" if unknown. `new_epoch` gives a fresh random text
    that a cursor accepts. `limit` is how many bytes the file may use.
    """

    path: str
    make_folder: Callable[[], None]
    boot_id: str
    new_epoch: Callable[[], str]
    limit: int
    connect: Connect = connect


LONGEST_PATH = 500
"""SQLite opens no file whose resolved path, with the names of its own files beside it, passes 512 bytes."""

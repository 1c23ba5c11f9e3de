"""The rows of a run's record: what its journal writes, and what it is told when a later life begins. Values only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from cueloop_daemon.events.model import Method
from cueloop_protocol.values import dataclass

Kind = Literal["N", "V", "S", "E"]
"""A note, a converging act, a step, an event."""


class Record(NamedTuple):
    """One entry of a scope. `intent` is given for a step alone; `result` is None while nobody knows what became of it."""

    idx: int
    key: str
    kind: Kind
    intent: bytes | None
    result: bytes | None


class Out(NamedTuple):
    """A notification on its way to the event log. `params` is one JSON object without `revision`, which is given when it is told."""

    method: Method
    kind: str | None
    params: bytes


class Held(NamedTuple):
    """One that waits in the outbox. Ordinals of a run rise by one and are never given twice."""

    run_id: str
    ordinal: int
    out: Out


class Conversation(NamedTuple):
    """One of the agents' own sessions. `body` is JSON of `runners.Conversation`, `state` is chosen, reported or gone."""

    task_id: str
    session_id: str
    iteration: int
    phase: int
    runner: str
    body: str
    state: str


class Checkpoint(NamedTuple):
    """The end of a scope: where a later life begins. Order numbers of the next scope are `next_order` and above."""

    name: str
    state: bytes
    next_order: int


class Over(NamedTuple):
    """The end of a run at `at` (RFC 3339). `summary` and `error` are JSON documents. Open questions are resolved with it."""

    at: str
    summary: bytes
    error: bytes | None
    finished: Out


@dataclass(frozen=True, slots=True)
class Batch:
    """What one transaction writes about one run: all of it or nothing, in this order."""

    checkpoint: Checkpoint | None = None
    """The scope before has ended: its entries are forgotten, all that follows is of the next one."""
    records: tuple[Record, ...] = ()
    """New entries."""
    results: tuple[tuple[int, bytes], ...] = ()
    """Results of entries that are on record by now: (idx, result)."""
    out: tuple[Out, ...] = ()
    conversations: tuple[Conversation, ...] = ()
    view: bytes | None = None
    """What `active_run` says."""
    restart: int | None = None
    """The scope begins anew: its entries but for its events are forgotten, and this is the new `next_order`."""
    over: Over | None = None

    def __bool__(self) -> bool:
        return self != _NOTHING


_NOTHING = Batch()


@dataclass(frozen=True, slots=True)
class Loaded:
    """A run as its record has it.

    `told` are the keys of events that an abandoned reading of this scope has said; they are matched by key alone.
    """

    run_id: str
    state: bytes
    next_order: int
    records: Sequence[Record] = ()
    told: frozenset[str] = frozenset()
    is_first_life: bool = True
    """Nothing was done before: no act can have been done without being on record."""
    stop_wanted: bool = False
    cancelled: bool = False

"""What the life of a run needs of the daemon, as one value."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from cueloop_daemon.runs.carrier import Carrier, Carriers
from cueloop_daemon.runs.journal import RunJournal
from cueloop_daemon.runs.lane import DbLane
from cueloop_daemon.runs.outbox import Outbox
from cueloop_daemon.runs.records import Over
from cueloop_daemon.runs.state import State
from cueloop_daemon.runs.types import Journal, RunIdentity, World
from cueloop_protocol.values import dataclass

Program = Callable[[State, Journal, World], Awaitable[State]]


@dataclass(frozen=True, slots=True)
class Host:
    """What a life needs of the daemon. `stamp` gives the wall clock's time, RFC 3339."""

    lane: DbLane
    outbox: Outbox
    carriers: Carriers
    program: Program
    boot_id: str
    """Of the machine when the run began."""
    stamp: Callable[[], str]
    identity: Callable[[], RunIdentity]
    """Reads the environment of the agents: blocking, raises OSError and ValueError."""
    world: Callable[[RunIdentity, Carrier, RunJournal], Awaitable[World]]
    warn: Callable[[str], None]
    ready: Callable[[], None]
    """Loads what only runs need; while the shim starts, so that nobody waits for it. Blocking."""
    up: Callable[[Carrier], Awaitable[None]]
    """The shim is up: `active_run` and `active.json` say so before anything is done."""
    unrecorded: Callable[[Over], Awaitable[None]]
    """The run is over and its record does not say so: tell it all the same."""

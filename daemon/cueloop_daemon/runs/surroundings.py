"""What the run engine needs of the daemon and the world, as one value."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Protocol

from cueloop_daemon.core.model import Snapshot
from cueloop_daemon.events.hub import Hub
from cueloop_daemon.runs.carrier import Carrier, Carriers
from cueloop_daemon.runs.face import Face
from cueloop_daemon.runs.host import Program
from cueloop_daemon.runs.journal import RunJournal
from cueloop_daemon.runs.lane import DbLane
from cueloop_daemon.runs.questions import QuestionDesk
from cueloop_daemon.runs.types import OwedRow, RunIdentity, World
from cueloop_protocol.documents.config import Config
from cueloop_protocol.params import RunStartParams
from cueloop_protocol.roots import Caller
from cueloop_protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class Living:
    """A run that has its shim, as its world is made from it."""

    run: RunIdentity
    config: Config
    carrier: Carrier
    journal: RunJournal
    desk: QuestionDesk
    flushed: Callable[[], Awaitable[None]]
    """Returns when everything that was said before is told."""


class Worlds(Protocol):
    """Makes the world of a run."""

    async def __call__(self, living: Living) -> World: ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The daemon around the engine. `stamp` gives the wall clock's time, RFC 3339; `history` is how many runs are kept."""

    lane: DbLane
    hub: Hub
    carriers: Carriers
    face: Face
    program: Program
    worlds: Worlds
    ready: Callable[[], None]
    """Loads what only runs need. Blocking, some hundred milliseconds the first time."""
    look: Callable[[Caller], Awaitable[Snapshot]]
    """The repository as it stands now, for this caller."""
    settle_config: Callable[[Config, RunStartParams], Config]
    """The configuration of a run: with the profile that was asked for. Raises RpcError."""
    revision: Callable[[], int]
    now: Callable[[], datetime]
    stamp: Callable[[], str]
    new_id: Callable[[], str]
    boot_id: str
    history: Callable[[], int]
    warn: Callable[[str], None]
    owed: Callable[[tuple[OwedRow, ...]], Awaitable[None]]
    """What the record says of accepted work that is to be settled, when it was opened."""
    changed: Callable[[], None]
    """A run has ended: others look again."""

"""What handlers can reach: the parts of one running daemon, put together by `parts`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from datetime import datetime
from typing import Literal, Protocol

import anyio

from cueloop_daemon.events.hub import Hub
from cueloop_daemon.measures import Measures
from cueloop_daemon.runs.engine import Engine
from cueloop_daemon.store.session_store import SessionStore
from cueloop_daemon.store.settings import Settings
from cueloop_daemon.takeover.succession import Wanted
from cueloop_daemon.workspace.view import View
from cueloop_daemon.workspace.workspace import Workspace
from cueloop_protocol.roots import Caller, Root
from cueloop_protocol.shapes import CallerParams, Origin, ShutdownReason
from cueloop_protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this daemon is. `started_monotonic` is in seconds."""

    pid: int
    version: str
    instance: str
    started_at: datetime
    started_monotonic: float
    start_time: str = ""
    boot_id: str = ""
    """With `pid`: the very process (`cueloop_protocol.identity`)."""
    origin: Origin = "hand"
    """Who started it."""


@dataclass(frozen=True, slots=True)
class WatcherHealth:
    """How changes are noticed; `reason` is None unless they are noticed more slowly than they should be."""

    backend: Literal["inotify", "watchfiles", "polling"]
    reason: str | None


class Life(Protocol):
    """The daemon's own end."""

    @property
    def draining(self) -> bool:
        """Whether the daemon is leaving."""
        ...

    def leave(self, reason: ShutdownReason) -> None:
        """Begin to leave. Again: nothing happens."""
        ...

    @property
    def heir(self) -> int | None:
        """The pid of the process that takes over just now."""
        ...

    def hand_over(self, wanted: Wanted) -> None:
        """Begin to hand over; one at a time."""
        ...


@dataclass(slots=True)
class Services:
    """The parts of the daemon, for handlers. Only the loop's thread touches them."""

    root: Root
    identity: Identity
    workspace: Workspace
    hub: Hub
    sessions: SessionStore
    engine: Engine
    life: Life
    watcher: Callable[[], WatcherHealth]
    connections: Callable[[], int]
    counters: Callable[[], Mapping[str, int]]
    look_again: Callable[[], None]
    """After a write of ours: let the announcer look at once."""
    attend: Callable[[Caller], Awaitable[object]]
    """Announce for this caller from now on."""
    warn: Callable[[str], None]
    """Publish a `warning` event of the watch."""
    socket: str
    folder: str
    log: str
    settings: Callable[[], Settings] = Settings
    """Those in force."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """The daemon's own environment."""
    measures: Measures = field(default_factory=Measures)
    """What the daemon measures of itself."""
    writing: anyio.Lock = field(default_factory=anyio.Lock)
    """Held by whoever writes a file that others share."""
    dumping: anyio.Lock = field(default_factory=anyio.Lock)
    """Held while a dump is made: cleaning it takes processor time, and nobody needs two at once."""
    is_managed: bool = False
    """Whether the listening socket belongs to a service manager."""
    active_windows: set[int] = field(default_factory=set)
    """Connections whose client says that its window is in front."""

    def caller(self, caller: CallerParams | None) -> Caller:
        """Whoever called, or the daemon's own user."""
        return self.workspace.default if caller is None else Caller(caller.home, caller.config_home)

    def view(self, caller: CallerParams | None) -> View:
        """The view of whoever called, or of the daemon's own user."""
        return self.workspace.view(self.caller(caller))

"""What one daemon is started with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from cueloop_daemon.service.keeper import Keeper
from cueloop_daemon.store.system import System
from cueloop_daemon.takeover.inheritance import Inheritance
from cueloop_daemon.watch.clock import Clock
from cueloop_daemon.workspace.workspace import Caches
from cueloop_protocol.roots import Root
from cueloop_protocol.values import dataclass

MIB = 1024 * 1024


class Say(Protocol):
    """Tells the starter one thing about the start."""

    def __call__(self, **message: object) -> None: ...


@dataclass(frozen=True, slots=True)
class Setting:
    """Everything of the world that a daemon needs. `home` is that of the user's passwd entry."""

    root: Root
    uid: int
    pid: int
    environ: dict[str, str]
    home: str
    instance: str
    clock: Clock
    system: System
    new_epoch: Callable[[], str]
    overdue: Callable[[float], None] = lambda seconds: None
    """From now on the process has so many seconds to end, whatever hangs."""
    inheritance: Inheritance | None = None
    """What a predecessor left to us."""
    caches: Caches | None = None
    """Files that were read before that."""
    keeper: Keeper = Keeper()
    """Who started us, and is to be told how we are."""

"""What all connections of a server share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Generic, TypeVar

from anyio.abc import TaskGroup

from cueloop_daemon.server.dispatch import Dispatcher
from cueloop_daemon.server.limits import Limits
from cueloop_daemon.server.requests import Clock
from cueloop_daemon.server.traffic import Traffic
from cueloop_protocol.codes import RpcError
from cueloop_protocol.values import dataclass

S = TypeVar("S")


@dataclass(slots=True)
class Counters:
    """What the server has done since it began."""

    connections: int = 0
    refused: int = 0
    requests: int = 0
    durable: int = 0
    """Calls under way that outlive their connection."""
    traffic: Traffic = field(default_factory=Traffic)


@dataclass(frozen=True, slots=True)
class Shell(Generic[S]):
    """What all connections of a server share."""

    dispatcher: Dispatcher[S]
    services: S
    clock: Clock
    limits: Limits
    durable: TaskGroup
    """Where calls run that outlive their connection."""
    refusal: Callable[[], RpcError | None]
    """What requests are answered with once the server ends; None until then."""
    counters: Counters = field(default_factory=Counters)

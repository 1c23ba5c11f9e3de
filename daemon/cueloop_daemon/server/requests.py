"""What the server and the handlers promise to each other.

A handler is a plain function of a `Call` and its parameters. What must be awaited happens around it: `prepare` before (bring the
snapshot up to date, look at git), `Effect`s after. The order of one request is

    prepare → handler → WRITE effects → SUBSCRIBE effects → the answer is handed to the writer → AFTER_REPLY effects

and between the last SUBSCRIBE effect and the answer nothing is awaited, so nothing that it lets loose can overtake the answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from datetime import datetime
from enum import IntEnum
from typing import Any, Generic, Protocol, TypeVar

from pydantic import BaseModel

from cueloop_daemon.events.sink import Sink
from cueloop_protocol.values import dataclass

S = TypeVar("S")
P = TypeVar("P", bound=BaseModel)

Result = bytes | BaseModel | Mapping[str, object]
"""What a call answers: a model, a plain mapping, or JSON that is ready (compact or not, UTF-8) and is sent as it is."""


class Clock(Protocol):
    """The readings that a call carries."""

    def now(self) -> datetime:
        """Wall clock, aware, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds; never goes backwards."""
        ...


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """Who a client says it is (`hello`). For people and logs; nothing is decided by it."""

    name: str
    version: str | None = None


@dataclass(slots=True, eq=False)
class Peer:
    """One connection, as handlers see it. The only thing here that changes; touched from the loop alone."""

    id: int
    """Counts up from 1 while the daemon lives."""
    pid: int | None
    """The peer's process when it connected; for people, it may be gone or another one by now."""
    sink: Sink
    """Where events for this connection go; answers are the server's own business."""
    client: ClientInfo | None = None
    """Set by the handler of `hello`."""
    farewells: list[Callable[[], None]] = field(default_factory=list)
    """Called once, in order, when the connection has closed. Plain functions that do not raise."""


@dataclass(frozen=True, slots=True)
class Call(Generic[S]):
    """What a handler knows besides its parameters. The readings are those of the moment the function is called."""

    services: S
    peer: Peer
    now: datetime
    monotonic: float


class When(IntEnum):
    """The place of an effect in the order of a request."""

    WRITE = 1
    SUBSCRIBE = 2
    AFTER_REPLY = 3


class Effect(Protocol):
    """Something that a handler wants done and does not do itself.

    Effects before the answer are shielded from cancellation: all of them happen, or none. One that raises `RpcError` makes the
    answer that error, and those after it do not happen; so does any other exception, as "internal error".
    """

    @property
    def when(self) -> When:
        """Its place in the order; effects of the same place keep the order of the reply."""
        ...

    async def perform(self, call: Call[Any]) -> Result | None:
        """Do it. A result that is not None replaces the one that the handler gave; after the reply it is ignored."""
        ...


@dataclass(frozen=True, slots=True)
class Reply:
    """What a handler gives."""

    result: Result
    effects: tuple[Effect, ...] = ()


Handler = Callable[[Call[S], P], Reply]
"""Raises `RpcError` for an answer that is an error; anything else it raises is logged and told as "internal error"."""


@dataclass(frozen=True, slots=True)
class Entry(Generic[S, P]):
    """One method in the server's table."""

    params: type[P]
    handler: Handler[S, P]
    prepare: Callable[[Call[S], P], Awaitable[None]] | None = None
    """Awaited before the handler, in a task of its own. May raise `RpcError`. Cancelled with the call: it must leave nothing."""
    is_fresh: Callable[[Call[S], P], bool] | None = None
    """Whether `prepare` would change nothing (a stat, no await); then the handler runs at once."""
    durable: bool = False
    """Once begun it outlives `$/cancelRequest` and its connection: for what starts, stops or writes."""


# Each entry has its own params type and no type names them all; `Entry.params` validates before `Entry.handler` is called.
Table = Mapping[str, Entry[S, Any]]
"""Method name → entry: all that the server can be asked."""

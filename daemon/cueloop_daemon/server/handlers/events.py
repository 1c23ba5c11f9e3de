"""`events.subscribe` and `events.unsubscribe`."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json

from cueloop_daemon.events.model import Filter
from cueloop_daemon.server.requests import Call, Reply, Result, When
from cueloop_daemon.services import Services
from cueloop_protocol.cursor import Cursor
from cueloop_protocol.params import SubscribeParams, UnsubscribeParams
from cueloop_protocol.results import UnsubscribeResult
from cueloop_protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class Register:
    """Registers the subscriber; silent until the reply is out (`Start`)."""

    params: SubscribeParams
    started: list[str]

    @property
    def when(self) -> When:
        return When.SUBSCRIBE

    async def perform(self, call: Call[Any]) -> Result:
        services: Services = call.services
        params = self.params
        caller = services.view(params.caller).caller
        await services.attend(caller)
        cursor = None if params.cursor is None else Cursor.parse(params.cursor)
        wanted = Filter(None if params.kinds is None else frozenset(params.kinds), params.run_id, caller.key)
        found = await services.hub.subscribe(call.peer.sink, wanted, cursor)
        self.started.append(found.subscription)
        sink, hub = call.peer.sink, services.hub
        call.peer.farewells.append(lambda: hub.forget(sink))
        head = to_json({"subscription": found.subscription, "cursor": str(found.cursor)})
        return head[:-1] + b',"snapshot":' + found.snapshot + b"}"


@dataclass(frozen=True, slots=True)
class Start:
    """The reply is out: let the events come."""

    started: list[str]

    @property
    def when(self) -> When:
        return When.AFTER_REPLY

    async def perform(self, call: Call[Any]) -> None:
        services: Services = call.services
        for subscription in self.started:
            services.hub.start(subscription)


def subscribe(call: Call[Services], params: SubscribeParams) -> Reply:
    """Events from a cursor on, or from now."""
    started: list[str] = []
    return Reply(b"{}", (Register(params, started), Start(started)))


def unsubscribe(call: Call[Services], params: UnsubscribeParams) -> Reply:
    """End one of this connection's subscriptions."""
    return Reply(UnsubscribeResult(removed=call.services.hub.unsubscribe(params.subscription, call.peer.sink)))

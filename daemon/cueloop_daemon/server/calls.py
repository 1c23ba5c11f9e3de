"""Making the calls of one connection, in the order that `requests` promises. No bytes are read or written here.

A message is begun at once, without a task. What can be answered then, is; the rest is finished in a task by the connection.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import anyio
import anyio.lowlevel

from cueloop_daemon.server.dispatch import Bound, Dispatcher, told
from cueloop_daemon.server.envelope import ABSENT, Absent, Id, Message, answer, refusal
from cueloop_daemon.server.requests import Call, Clock, Effect, Peer, Reply, Result, When
from cueloop_daemon.server.traffic import Traffic
from cueloop_daemon.server.writer import Writer
from cueloop_protocol import codes
from cueloop_protocol.codes import RpcError
from cueloop_protocol.values import dataclass

log = logging.getLogger(__name__)
S = TypeVar("S")

CANCEL = "$/cancelRequest"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A call that was made. `body` is None where no answer is wanted; `after` is to be performed when it is with the writer."""

    body: bytes | None
    after: tuple[Effect, ...] = ()
    call: Call[Any] | None = None


@dataclass(frozen=True, slots=True)
class Pending(Generic[S]):
    """A call that has to wait for something. If `reply` is there, only its effects are missing, and `call` is what made it."""

    bound: Bound[S]
    call: Call[S]
    reply: Reply | None
    began: float
    """The monotonic clock's reading when the request was there."""


NOTHING = Outcome(None)


class Calls(Generic[S]):
    """The calls of one connection: making them, and withdrawing those that are under way."""

    def __init__(
        self,
        dispatcher: Dispatcher[S],
        services: S,
        clock: Clock,
        peer: Peer,
        writer: Writer,
        refusal: Callable[[], RpcError | None],
        traffic: Traffic,
    ) -> None:
        self._traffic = traffic
        self._dispatcher = dispatcher
        self._services = services
        self._clock = clock
        self._monotonic = clock.monotonic
        self._peer = peer
        self._writer = writer
        self._refusal = refusal
        self._scopes: dict[tuple[type, object], list[anyio.CancelScope]] = {}

    def begin(self, message: Message) -> Outcome | Pending[S]:
        """Do what can be done without waiting. Never raises for what the message or a handler got wrong."""
        if message.method == CANCEL and message.id is ABSENT:
            self._cancel(message.params)
            return NOTHING
        monotonic = self._monotonic
        began = monotonic()
        made = self._begin(message, began)
        if made.__class__ is Pending:
            self._traffic.asked(message.method)
        else:
            self._traffic.done(message.method, monotonic() - began)
        return made

    def _begin(self, message: Message, began: float) -> Outcome | Pending[S]:
        if (refused := self._refusal()) is not None:
            return self.failed(message.id, refused)
        bound = self._dispatcher.bind(message)
        if isinstance(bound, RpcError):
            return self.failed(message.id, bound)
        try:
            call = self._call()
            entry = bound.entry
            if entry.prepare is not None and not (entry.is_fresh is not None and entry.is_fresh(call, bound.params)):
                return Pending(bound, call, None, began)
            reply = entry.handler(call, bound.params)
            if reply.effects:
                return Pending(bound, call, reply, began)
            return Outcome(_body(bound, reply.result))
        except Exception as error:
            return self.failed(bound.id, told(error, bound.method))

    async def finish(self, pending: Pending[S], hold: Callable[[], None] | None = None) -> Outcome:
        """Wait for what the call needs and make it. `hold` is called before what may send events that have to follow the answer.

        A call that was withdrawn before its effects began leaves nothing and is cancelled by its scope (`may_be_cancelled`).
        """
        bound, call, reply = pending.bound, pending.call, pending.reply
        try:
            if reply is None:
                call, reply = await self._prepared(bound, call)
            result = await _perform(call, reply, hold)
            outcome = Outcome(_body(bound, result), _after(reply), call)
        except Exception as error:
            outcome = self.failed(bound.id, told(error, bound.method))
        self._traffic.answered(self._monotonic() - pending.began)
        return outcome

    def withdrawn(self, bound: Bound[S]) -> Outcome:
        """The outcome of a call that was cancelled by its id."""
        return self.refused(bound, codes.cancelled())

    def refused(self, bound: Bound[S], error: RpcError) -> Outcome:
        """The outcome of a call that was not made."""
        return self.failed(bound.id, error)

    def failed(self, id: Id | Absent, error: RpcError) -> Outcome:  # noqa: A002  (the protocol's word)
        """The outcome of a call that is answered by this error, counted."""
        self._traffic.failed(error)
        return NOTHING if isinstance(id, Absent) else Outcome(refusal(id, error))

    def may_be_cancelled(self, bound: Bound[S], scope: anyio.CancelScope) -> Callable[[], None]:
        """From now on `$/cancelRequest` with this call's id cancels `scope`, until the returned function is called.

        A durable call is not cancelled: its id is not known to `$/cancelRequest`.
        """
        if bound.entry.durable or not bound.wants_answer:
            return _nothing
        key = (type(bound.id), bound.id)  # 1, 1.0 and "1" are three ids; one id may be under way twice
        scopes = self._scopes.setdefault(key, [])
        scopes.append(scope)

        def forget() -> None:
            scopes.remove(scope)
            if not scopes:
                self._scopes.pop(key, None)

        return forget

    async def _prepared(self, bound: Bound[S], call: Call[S]) -> tuple[Call[S], Reply]:
        assert bound.entry.prepare is not None  # only then is a call without a reply pending
        await bound.entry.prepare(call, bound.params)
        while self._writer.is_congested and not bound.entry.durable:
            await self._writer.room()  # an answer is made only when there is a place for it
            await bound.entry.prepare(call, bound.params)  # and straight after this: what it readied may not stand for long
        call = self._call()
        return call, bound.entry.handler(call, bound.params)

    def _call(self) -> Call[S]:
        return Call(self._services, self._peer, self._clock.now(), self._clock.monotonic())

    def _cancel(self, params: object) -> None:
        """Requests that are answered already, or unknown, are no error: the answer and the wish may cross."""
        if isinstance(params, dict) and "id" in params:
            wanted = params["id"]
            if wanted is None or isinstance(wanted, str | int | float):
                for scope in self._scopes.get((type(wanted), wanted), ()):
                    scope.cancel()


async def settle(outcome: Outcome) -> None:
    """Perform what comes after the reply. An effect that fails is logged; there is nobody left to tell."""
    with anyio.CancelScope(shield=True):
        for effect in outcome.after:
            try:
                assert outcome.call is not None  # effects come with the call that they belong to
                await effect.perform(outcome.call)
            except Exception:
                log.exception("effect_failed effect=%s", type(effect).__name__)


async def _perform(call: Call[Any], reply: Reply, hold: Callable[[], None] | None) -> Result:
    """The effects before the answer, all or none. Nothing is awaited after the last one."""
    result = reply.result
    before = [effect for effect in reply.effects if effect.when is not When.AFTER_REPLY]
    if not before:
        return result
    await anyio.lowlevel.checkpoint_if_cancelled()
    with anyio.CancelScope(shield=True):
        for effect in sorted(before, key=lambda effect: effect.when):
            if effect.when is When.SUBSCRIBE and hold is not None:
                hold()
            given = await effect.perform(call)
            if given is not None:
                result = given
    return result


def _nothing() -> None:
    """For a call that cannot be withdrawn."""


def _after(reply: Reply) -> tuple[Effect, ...]:
    return tuple(effect for effect in reply.effects if effect.when is When.AFTER_REPLY)


def _body(bound: Bound[Any], result: Result) -> bytes | None:
    return None if isinstance(bound.id, Absent) else answer(bound.id, result)

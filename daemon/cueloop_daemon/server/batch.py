"""A batch of JSON-RPC 2.0: each item judged and made by itself, one after the other, their answers joined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import anyio
import anyio.lowlevel

from cueloop_daemon.server.calls import Calls, Outcome, settle
from cueloop_daemon.server.dispatch import Bound
from cueloop_daemon.server.envelope import Absent, Invalid, Message, joined
from cueloop_daemon.server.limits import Limits
from cueloop_daemon.server.writer import Writer
from cueloop_protocol import codes

S = TypeVar("S")


class Batch(Generic[S]):
    """One batch of one connection. `run` once."""

    def __init__(self, calls: Calls[S], writer: Writer, limits: Limits, unmade: Callable[[Bound[S]], Outcome]) -> None:
        """`unmade`: the outcome of a call that was ended from outside."""
        self._calls = calls
        self._writer = writer
        self._limits = limits
        self._answers: list[bytes] = []
        self._size = 0
        self._holds = 0
        self._unmade = unmade
        self._scope = anyio.CancelScope()

    def stop(self) -> None:
        """End the call that is being made; the rest is answered with whatever new calls are answered with."""
        self._scope.cancel()

    async def run(self, items: list[Message | Invalid]) -> None:
        """Make the calls in their order and send one answer, if any is wanted. After a subscription in it, events wait for it."""
        outcomes: list[Outcome] = []
        try:
            for position, item in enumerate(items, 1):
                outcome = await self._one(item)
                if outcome.body is not None:
                    self._answers.append(outcome.body)
                    self._size += len(outcome.body)
                if outcome.after:
                    outcomes.append(outcome)
                if position % self._limits.turn == 0:
                    await anyio.lowlevel.checkpoint()
            if self._answers:
                self._writer.send(joined(self._answers))
        finally:
            for _ in range(self._holds):
                self._writer.release()
        for outcome in outcomes:
            await settle(outcome)

    async def _one(self, item: Message | Invalid) -> Outcome:
        if isinstance(item, Invalid):
            return self._calls.failed(item.id, item.error)
        if self._size > self._limits.batch_bytes and not isinstance(item.id, Absent):
            return self._calls.failed(item.id, codes.limit_exceeded("The answer to the batch became too large for this call."))
        begun = self._calls.begin(item)
        if isinstance(begun, Outcome):
            return begun
        scope = self._scope = anyio.CancelScope()
        forget = self._calls.may_be_cancelled(begun.bound, scope)
        try:
            with scope:
                return await self._calls.finish(begun, self._hold)
            return self._unmade(begun.bound)
        finally:
            forget()

    def _hold(self) -> None:
        self._holds += 1
        self._writer.hold()

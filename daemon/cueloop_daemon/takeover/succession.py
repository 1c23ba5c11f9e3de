"""The owner's one place for an heir, from the request to the turn in which it begins to leave."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Literal

import anyio
import anyio.to_thread

from cueloop_daemon.takeover.bequest import Bequest, Estate, Heir, HeirLost
from cueloop_daemon.takeover.probes import reached
from cueloop_protocol.codes import RpcError
from cueloop_protocol.values import dataclass

logger = logging.getLogger(__name__)

LEAVES_WITHIN = 8.0
"""Seconds from the beginning of the end to the end of the process, whatever hangs: grace, farewell and what `overdue` allows."""
QUIET_SECONDS = 2.0
"""How long calls that start, stop or write are waited for before nobody is accepted any more."""
LOOK = 0.02

Runs = Literal["refuse", "leave", "cancel"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A request that was granted. `runs`: what is to become of a run that is active in the last turn."""

    heir: Heir
    runs: Runs


class Succession:
    """`run` must be running. All from the event loop."""

    def __init__(
        self,
        estate: Callable[[], Estate],
        why_not: Callable[[Runs], RpcError | None],
        durable: Callable[[], int],
        go: Callable[[Bequest], None],
    ) -> None:
        """`estate` is asked once for each heir, and its listener is then ours to close.

        `why_not`: what forbids the handover in the last moment; `durable`: how many calls are under way that start, stop or
        write; `go` begins to leave, in the turn in which it is called.
        """
        self._estate = estate
        self._why_not = why_not
        self._durable = durable
        self._go = go
        self._wanted: Wanted | None = None
        self._wake = anyio.Event()

    @property
    def heir(self) -> int | None:
        """The pid of the process that takes over just now."""
        return None if self._wanted is None else self._wanted.heir.pid

    def want(self, wanted: Wanted) -> None:
        """Begin; one at a time."""
        if self._wanted is None:
            self._wanted = wanted
            self._wake.set()

    async def run(self) -> None:
        """Hand over when it is wanted; an heir that is lost on the way leaves everything as it was."""
        while True:
            await self._wake.wait()
            self._wake = anyio.Event()
            if self._wanted is not None:
                try:
                    await self._hand_over(self._wanted)
                except HeirLost as exc:
                    logger.warning("heir_lost pid=%d reason=%s", self._wanted.heir.pid, exc)
                self._wanted = None

    async def _hand_over(self, wanted: Wanted) -> None:
        reached("answered")
        with anyio.move_on_after(QUIET_SECONDS):
            while self._durable():  # noqa: ASYNC110  (a count that every request may change has no event)
                await anyio.sleep(LOOK)
        estate = self._estate()
        try:
            bequest = await anyio.to_thread.run_sync(Bequest.offer, wanted.heir, estate)
            reached("held")
            # From here to the end without an await: what was decided is still so.
            if (refused := self._why_not(wanted.runs)) is not None:
                bequest.refuse(refused.document)
                raise HeirLost(refused.message)
            if not bequest.go():
                raise HeirLost("it was gone in the last moment")
        except BaseException:
            os.close(estate.listener)
            raise
        logger.info("handing_over heir=%d", wanted.heir.pid)
        self._go(bequest)
        reached("going")

"""A subscription that outlives its connections: each note once and in order, or a gap. Notes as they came, without models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import anyio

from cueloop_client.api.link import Link, Opener
from cueloop_client.exchange import result_of
from cueloop_client.failures import BadAnswer, Failure, Lost, NoDaemon, Silent, Unreached, Unsent
from cueloop_client.far import pause_before
from cueloop_protocol.codes import SHUTTING_DOWN, RpcError
from cueloop_protocol.frozen import Frozen

PAUSES = (0.0, 0.05, 0.2, 0.5, 1.0, 2.0)
"""Seconds before the first, second, … attempt to connect again; the last one repeats."""
ASKED = 1


class RepositoryGone(Failure):
    """The daemon left because its repository is gone: there is nothing to subscribe to any more."""


class RawNote(Frozen):
    """One notification of a subscription, as it came."""

    method: str
    cursor: str
    params: Mapping[str, Any]


class Stream:
    """The connections of one subscription, one after the other.

    A lost connection is made again from the cursor of the last note, and the daemon is started if that is allowed, unless it was
    stopped on purpose: then the stream waits until somebody starts it.
    """

    def __init__(
        self,
        opener: Opener,
        params: Mapping[str, Any],
        cursor: str | None,
        seconds: float,
        on_interruption: Callable[[str], None] | None = None,
    ) -> None:
        self._opener = opener
        self._params = params
        self._seconds = seconds
        self._on_interruption = on_interruption
        self._link: Link | None = None
        self._name: str | None = None
        self._reason = "lost"
        self._opened = False
        self._first_snapshot: Any = None
        self.cursor = cursor
        """Where to go on: the cursor of the last note that was handed out, or where the stream began. None before it is open."""

    async def open(self) -> None:
        """Subscribe now and not with the first note. Raises what `next_note` does, and NoDaemon, Silent and Lost."""
        await self._open_first()

    async def next_note(self) -> RawNote:
        """The next note, however long it takes; a cancelled call loses none.

        Raises RepositoryGone, StartFailed, Misfit, Stranger, BadAnswer, or RpcError; the first connection also what `open` does.
        """
        while True:
            link = self._link
            if link is None:
                link = await (self._open_again() if self._opened else self._open_first())
            try:
                note = self._take(await link.receive())
            except Lost:
                await self._interrupted()
                continue
            except BadAnswer:
                await self._drop()
                raise
            if note is not None:
                return note

    async def aclose(self) -> None:
        """End the subscription; the daemon forgets it with its connection."""
        await self._drop()

    async def _drop(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.aclose()

    async def _interrupted(self) -> None:
        await self._drop()
        if self._reason == "repository_gone":
            raise RepositoryGone("The daemon left because its repository is gone.")
        if self._on_interruption is not None:
            self._on_interruption(self._reason)

    async def _open_again(self) -> Link:
        attempt = 0
        while True:
            await anyio.sleep(pause_before(attempt, self._opener.root, PAUSES))
            attempt += 1
            try:
                return await self._open(start=self._reason != "stopped")
            except (Lost, NoDaemon, Silent, Unreached):
                continue
            except RpcError as exc:
                if exc.code != SHUTTING_DOWN:
                    raise

    async def _open_first(self) -> Link:
        """A daemon that leaves just then has a successor, or none yet: it is asked again."""
        for pause in PAUSES[1:]:
            try:
                return await self._open(start=True)
            except Unsent:
                pass
            except RpcError as exc:
                if exc.code != SHUTTING_DOWN:
                    raise
            await anyio.sleep(pause)
        return await self._open(start=True)

    async def _open(self, *, start: bool) -> Link:
        link = await self._opener.open(start=start)
        try:
            with anyio.fail_after(self._seconds):
                self._name, self.cursor = await self._subscribe(link)
        except TimeoutError as exc:
            await link.aclose()
            raise Silent(f"The daemon did not answer events.subscribe within {self._seconds:g} s.") from exc
        except BaseException:
            await link.aclose()
            raise
        self._link, self._reason, self._opened = link, "lost", True
        return link

    async def _subscribe(self, link: Link) -> tuple[str, str]:
        asked = dict(self._params) if self.cursor is None else {**self._params, "cursor": self.cursor}
        await link.send({"jsonrpc": "2.0", "id": ASKED, "method": "events.subscribe", "params": asked})
        while "method" in (message := await link.receive()):
            pass  # nothing of the subscription comes before its answer
        result = result_of(message, ASKED)
        name, cursor = (result.get(key) if isinstance(result, dict) else None for key in ("subscription", "cursor"))
        if not isinstance(name, str) or not isinstance(cursor, str):
            raise BadAnswer("The daemon's answer to events.subscribe has no subscription or no cursor.")
        if not self._opened:
            self._first_snapshot = result.get("snapshot")
        return name, cursor if self.cursor is None else self.cursor

    def _take(self, message: dict[str, Any]) -> RawNote | None:
        """The note in a message, if it has one for us. The cursor moves in the same step in which the note is handed out."""
        method, params = message.get("method"), message.get("params")
        if not isinstance(method, str) or not isinstance(params, dict):
            if "error" in message:
                result_of(message, ASKED)
            return None
        if method == "daemon.closing":
            reason = params.get("reason")
            self._reason = reason if isinstance(reason, str) else "lost"
            return None
        cursor = params.get("cursor")
        if params.get("subscription") != self._name or not isinstance(cursor, str):
            return None
        self.cursor = cursor
        return RawNote(method, cursor, params)

"""A subscription as programs use it: notes as models, in an `async for`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from pydantic import ValidationError
from pydantic_core import to_json

from cueloop_client.api.link import Opener
from cueloop_client.api.notes import Note, note_of
from cueloop_client.api.stream import Stream
from cueloop_protocol.results import Snapshot


class Subscription(Stream):
    """Iterate over it for the notes; a gap is a note, too. Made by `Client.subscribe`; used with `async with` or `async for`.

    Iterating raises what `Stream.next_note` does, never ends by itself, and can go on after it was cancelled.
    """

    def __init__(
        self,
        opener: Opener,
        params: Mapping[str, Any],
        cursor: str | None,
        seconds: float,
        on_interruption: Callable[[str], None] | None,
        open_ones: set[Subscription],
    ) -> None:
        """`open_ones` has this subscription in it until it is closed, so that its owner can close what is left."""
        super().__init__(opener, params, cursor, seconds, on_interruption)
        self._open_ones = open_ones
        open_ones.add(self)

    @property
    def snapshot(self) -> Snapshot | None:
        """The state at the beginning of the stream. None before it is open, or if this version cannot read it."""
        try:
            return Snapshot.model_validate_json(to_json(self._first_snapshot), extra="ignore")
        except ValidationError:
            return None

    async def aclose(self) -> None:
        """End the subscription."""
        self._open_ones.discard(self)
        await super().aclose()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Note:
        return note_of(await self.next_note())

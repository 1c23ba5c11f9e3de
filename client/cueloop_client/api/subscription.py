"""A subscription as programs use it: notes as models, in an `async for`."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from cueloop_protocol.results import Snapshot
from pydantic import ValidationError
from pydantic_core import to_json

from cueloop_client.api.notes import Note, note_of
from cueloop_client.api.stream import Stream


class Subscription(Stream):
    """Iterate over it for the notes; a gap is a note, too. Made by `Client.subscribe`; used with `async with` or `async for`.

    Iterating raises what `Stream.next_note` does, never ends by itself, and can go on after it was cancelled.
    """

    @property
    def snapshot(self) -> Snapshot | None:
        """The state at the beginning of the stream. None before it is open, or if this version cannot read it."""
        try:
            return Snapshot.model_validate_json(to_json(self._first_snapshot), extra="ignore")
        except ValidationError:
            return None

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Note:
        return note_of(await self.next_note())

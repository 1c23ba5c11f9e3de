"""What a program does goes through a journal: how it is cancelled, and what stops it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from pydantic import TypeAdapter

from cueloop_protocol.documents.envelope import Event

if TYPE_CHECKING:  # every runner comes with it, and only a run needs one
    pass

T = TypeVar("T")
I = TypeVar("I")  # noqa: E741  (an intent)


class RunCancelled(Exception):
    """The run is being cancelled. Raised by `Journal.wait` alone, and only beyond what is on record."""


class Diverged(Exception):
    """The program asks for another step than the one on record: another version wrote it. Nothing was done."""


class Journal(Protocol):
    """What a program does goes through here, in the same order in each life of the daemon.

    A key is unique in its scope. What is on record is answered from there and not done again. Rules for programs: no effect outside
    of these calls, none in `finally` or `except`, no clock, no randomness but through `note`.
    """

    async def note(self, key: str, make: Callable[[], Awaitable[T]], codec: TypeAdapter[T]) -> T:
        """A value without an effect (the time, a file's content, a decision's facts); kept, so that each life sees the same."""
        ...

    async def converge(self, key: str, act: Callable[[bool], Awaitable[T]], codec: TypeAdapter[T]) -> T:
        """An effect that may be repeated: "make it so". `act(again)`: `again` where an earlier life may have done it already."""
        ...

    async def step(
        self, key: str, intent: I, act: Callable[[I, bool], Awaitable[T]], intent_codec: TypeAdapter[I], codec: TypeAdapter[T]
    ) -> T:
        """An effect that must not happen twice: the intent is on the medium before `act(intent, again)` begins."""
        ...

    async def emit(self, key: str, event: Event) -> None:
        """Say an event of this run, once in all lives."""
        ...

    def say(self, event: Event) -> None:
        """Say an event from beside the program (heartbeat, limits). May be lost in a crash, is never repeated."""
        ...

    async def heed(self) -> None:
        """Raise RunCancelled if the run is being cancelled and nothing is on record beyond. Commits nothing."""
        ...

    async def wait(self, wanted: Awaitable[T]) -> T:
        """Wait for something that takes long. Raises RunCancelled as soon as the run is cancelled."""
        ...

    async def checkpoint(self, state: object) -> None:
        """The scope is over: `state` is where a later life begins, and the scope's steps are forgotten, in one transaction."""
        ...

    def order_number(self) -> int:
        """A fresh number for an order to the shim, equal in each life for the same step. Only within an intent."""
        ...

    @property
    def cancelled(self) -> bool:
        """Whether the run is being cancelled."""
        ...

    @property
    def stop_wanted(self) -> bool:
        """Whether the run was asked to stop after its current task."""
        ...

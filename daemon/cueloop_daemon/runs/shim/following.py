"""What a daemon knows of one child of the shim, and those who want to hear of it."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from cueloop_daemon.runs.types import Exited, Grown


class Watched:
    """One child as far as it was told. Sizes only grow; `exited` and `failure` are the end, and one of them at most is set."""

    def __init__(self) -> None:
        self.token: str | None = None
        self.out = 0
        self.err = 0
        self.exited: Exited | None = None
        self.failure: Exception | None = None
        self._changed = anyio.Event()

    @property
    def is_open(self) -> bool:
        """Whether there is more to hear of it."""
        return self.exited is None and self.failure is None

    def grow(self, out: int, err: int) -> None:
        """It has written this much."""
        if out > self.out or err > self.err:
            self.out, self.err = max(self.out, out), max(self.err, err)
            self.tell()

    def end(self, exited: Exited) -> None:
        """It is over."""
        self.out, self.err = exited.out, exited.err
        self.exited = self.exited or exited
        self.tell()

    def fail(self, failure: Exception) -> None:
        """Nothing more can be heard of it."""
        if self.is_open:
            self.failure = failure
            self.tell()

    def tell(self) -> None:
        """Wake those who wait."""
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def change(self) -> None:
        """Wait for the next change."""
        await self._changed.wait()


class Following:
    """An iterator over one child's news, beginning with how things stand. A cancelled `anext` loses nothing."""

    def __init__(self, watched: Watched, why_lost: Callable[[], Exception | None]) -> None:
        self._watched = watched
        self._why_lost = why_lost
        self._told: Grown | None = None
        self._is_over = False

    def __aiter__(self) -> Following:
        return self

    async def __anext__(self) -> Grown | Exited:
        """Raises what the calls of the link raise, once there is nothing more to tell."""
        await anyio.lowlevel.checkpoint()
        while not self._is_over:
            watched = self._watched
            if watched.exited is not None:
                self._is_over = True
                return watched.exited
            now = Grown(watched.out, watched.err)
            if now != self._told:
                self._told = now
                return now
            failure = watched.failure or self._why_lost()
            if failure is not None:
                raise failure
            await watched.change()
        raise StopAsyncIteration

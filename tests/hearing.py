"""What tests of watchers share: a listener that reads a file at each hint, as the daemon does, and knows what it saw last."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from cueloop_daemon.watch.watcher import Watcher

NEVER = 3600.0
"""A safety poll that cannot come to the rescue within a test."""


class Listener:
    """`seen` is the file's text at the last hint, None where it could not be read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._heard = anyio.Event()
        self.hints = 0
        self.seen: str | None = self._read()

    def __call__(self) -> None:
        self.hints += 1
        self.seen = self._read()
        self._heard.set()
        self._heard = anyio.Event()

    def _read(self) -> str | None:
        try:
            return self._path.read_text()
        except OSError:
            return None

    async def until(self, text: str | None, seconds: float = 2.0) -> None:
        """Return once a hint showed this text; a hint that comes later than `seconds` fails the test."""
        with anyio.fail_after(seconds):
            while self.seen != text:
                await self._heard.wait()

    async def hint(self, seconds: float = 2.0) -> None:
        """Return at the next hint."""
        with anyio.fail_after(seconds):
            await self._heard.wait()


@asynccontextmanager
async def listening(watcher: Watcher, path: Path) -> AsyncIterator[Listener]:
    """The watcher runs meanwhile, and is cancelled in the end."""
    listener = Listener(path)
    async with anyio.create_task_group() as tasks:
        await tasks.start(watcher.run, listener)
        yield listener
        with anyio.fail_after(2):
            tasks.cancel_scope.cancel()

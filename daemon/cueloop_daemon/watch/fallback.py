"""The portable watcher, on `watchfiles`, with its traps handled (they are silent, each of them).

It watches folders only and not recursively, without its default filter (which is blind below `.venv` and the like). A folder that
was removed and made again leaves it deaf, so it starts anew whenever a watched folder goes or another is in its place. It drops
overflows and does not see every file system, so a slow look stays beside it. Cancelling alone would take seconds, so a stop event
goes with it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from typing import Protocol

import anyio
from anyio.abc import TaskStatus
from watchfiles import Change, awatch

from cueloop_daemon.watch.chain import Key, spots
from cueloop_daemon.watch.sweep import Look, look_in_thread
from cueloop_daemon.watch.watcher import SAFETY_POLL, Wanted, WatchFailed

STEP_MS = 50
"""How often watchfiles looks into its own set: it wakes up so often while idle, and a hint takes up to twice as long."""
ATTEMPTS = 5
"""Failures in a row after which another way of watching must be taken."""
RETRY_S = 0.5


class Changes(Protocol):
    """How changes come; `awatch` in production."""

    def __call__(self, *paths: str, stop_event: anyio.Event) -> AsyncGenerator[set[tuple[Change, str]], None]:
        """Yield sets of changes below the folders until the event is set."""


def watch_folders(*paths: str, stop_event: anyio.Event) -> AsyncGenerator[set[tuple[Change, str]], None]:
    """`awatch` as it must be called: no filter, no recursion, no time-out of its own."""
    return awatch(*paths, watch_filter=None, stop_event=stop_event, step=STEP_MS, rust_timeout=0, recursive=False)


class WatchfilesWatcher:
    """A `Watcher` on watchfiles. `run` raises WatchFailed (in an exception group) after repeated failures."""

    backend = "watchfiles"
    degraded: str | None = None

    def __init__(self, changes: Changes = watch_folders, safety_poll: float = SAFETY_POLL) -> None:
        self._changes = changes
        self._safety_poll = safety_poll
        self._wanted = Wanted()
        self._restart: anyio.Event | None = None
        self._armed: frozenset[Key] = frozenset()
        self._failures = 0
        self._seen: Look = ()

    def set_paths(self, folders: Iterable[str], files: Iterable[str] = ()) -> None:
        """See `Watcher`."""
        wanted = Wanted(frozenset(folders), frozenset(files))
        if wanted != self._wanted:
            self._wanted = wanted
            if self._restart is not None:
                self._restart.set()

    async def run(self, on_hint: Callable[[], None], *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """See `Watcher`."""
        try:
            self._seen = await look_in_thread(self._wanted)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._poll, on_hint)
                task_status.started()
                while True:
                    await self._one_round(on_hint)
                    on_hint()
        finally:
            self._restart = None

    async def _one_round(self, on_hint: Callable[[], None]) -> None:
        """Watch the folders that are there now, until others should be watched."""
        self._restart = restart = anyio.Event()
        now = spots(self._wanted)
        self._armed = frozenset(now)
        paths = sorted(spot.path for spot in now.values() if spot.level > 0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch, paths, restart, on_hint)
            try:
                await restart.wait()
            finally:
                restart.set()

    async def _watch(self, paths: list[str], restart: anyio.Event, on_hint: Callable[[], None]) -> None:
        folders = set(paths)
        try:
            async with aclosing(self._changes(*paths, stop_event=restart)) as batches:
                async for changes in batches:
                    self._failures = 0
                    on_hint()
                    gone = any(change is Change.deleted and path in folders for change, path in changes)
                    if gone or spots(self._wanted).keys() != self._armed:
                        break
        except Exception as exc:  # the extension's own types, a folder that went in between, a name that is no text
            self._failures += 1
            if self._failures >= ATTEMPTS:
                raise WatchFailed(
                    f"the system gives no events ({exc}); changes are found by looking every second instead."
                ) from exc
            await anyio.sleep(RETRY_S)
        restart.set()

    async def _poll(self, on_hint: Callable[[], None]) -> None:
        while True:
            await anyio.sleep(self._safety_poll)
            wanted, before = self._wanted, self._seen
            self._seen = await look_in_thread(wanted)
            if spots(self._wanted).keys() != self._armed and self._restart is not None:
                self._restart.set()
            elif wanted is self._wanted and self._seen != before:
                on_hint()

"""Watching by looking again and again: works everywhere, and is what is left when the system gives no events."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import anyio
from anyio.abc import TaskStatus

from cueloop_daemon.watch.sweep import look_in_thread
from cueloop_daemon.watch.watcher import Wanted

INTERVAL = 1.0
"""Seconds between two looks when nothing else watches."""


class PollingWatcher:
    """A `Watcher` that hints when two looks differ. Looks are taken in a thread: a lost file server stops no event loop."""

    backend = "polling"

    def __init__(self, degraded: str | None = None, interval: float = INTERVAL) -> None:
        self.degraded = degraded
        self._interval = interval
        self._wanted = Wanted()

    def set_paths(self, folders: Iterable[str], files: Iterable[str] = ()) -> None:
        """See `Watcher`."""
        self._wanted = Wanted(frozenset(folders), frozenset(files))

    async def run(self, on_hint: Callable[[], None], *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """See `Watcher`."""
        before = await look_in_thread(self._wanted)
        task_status.started()
        while True:
            await anyio.sleep(self._interval)
            now = await look_in_thread(self._wanted)
            if now != before:
                before = now
                on_hint()

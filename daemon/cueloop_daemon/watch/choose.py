"""Picks the best way of watching that works, goes on with a poorer one when it stops working, and tries the better one again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

import anyio
from anyio.abc import TaskStatus

from cueloop_daemon.watch.polling import INTERVAL, PollingWatcher
from cueloop_daemon.watch.watcher import Watcher, WatchFailed

RETRY = 60.0
"""Seconds of polling after which events are tried again: a limit may have been raised."""


def native_watcher() -> Watcher:
    """The best one for this system. Imported here: each needs what only its system, or only a wheel, has."""
    if sys.platform == "linux":
        from cueloop_daemon.watch.inotify import InotifyWatcher

        return InotifyWatcher()
    from cueloop_daemon.watch.fallback import WatchfilesWatcher

    return WatchfilesWatcher()


class ChosenWatcher:
    """A `Watcher` that never fails: where the system gives no events it polls, and `degraded` says why and what to do."""

    def __init__(self, native: Callable[[], Watcher] = native_watcher, retry: float = RETRY, interval: float = INTERVAL) -> None:
        self._native = native
        self._retry = retry
        self._interval = interval
        self._paths: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
        self._current: Watcher | None = None

    @property
    def backend(self) -> str:
        """See `Watcher`; `none` before `run`."""
        return self._current.backend if self._current else "none"

    @property
    def degraded(self) -> str | None:
        """See `Watcher`."""
        return self._current.degraded if self._current else None

    def set_paths(self, folders: Iterable[str], files: Iterable[str] = ()) -> None:
        """See `Watcher`."""
        self._paths = (tuple(folders), tuple(files))
        if self._current is not None:
            self._current.set_paths(*self._paths)

    async def run(self, on_hint: Callable[[], None], *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """See `Watcher`."""
        announced = False

        def ready() -> None:
            nonlocal announced
            if announced:
                on_hint()  # something may have happened between the two
            else:
                announced = True
                task_status.started()

        while True:
            reason = await self._run_native(on_hint, ready)
            with anyio.move_on_after(self._retry):
                await self._run_one(PollingWatcher(reason, self._interval), on_hint, ready)

    async def _run_native(self, on_hint: Callable[[], None], ready: Callable[[], None]) -> str:
        """Run the native watcher until it fails; why it did."""
        reasons: list[str] = []
        try:
            await self._run_one(self._native(), on_hint, ready)
        except* WatchFailed as group:
            reasons = [str(failure) for failure in _leaves(group)]
        return reasons[0] if reasons else "the watcher ended by itself"

    async def _run_one(self, watcher: Watcher, on_hint: Callable[[], None], ready: Callable[[], None]) -> None:
        self._current = watcher
        watcher.set_paths(*self._paths)
        async with anyio.create_task_group() as tasks:
            await tasks.start(watcher.run, on_hint)
            ready()


def _leaves(group: BaseExceptionGroup[WatchFailed]) -> list[WatchFailed]:
    return [leaf for one in group.exceptions for leaf in (_leaves(one) if isinstance(one, BaseExceptionGroup) else [one])]

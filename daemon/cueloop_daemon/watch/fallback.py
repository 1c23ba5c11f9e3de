"""The portable watcher, on `watchfiles`, with its traps handled (they are silent, each of them).

It watches folders only and not recursively, without the library's filter (which is blind below `.venv` and the like). A folder
that was removed and made again leaves it deaf, so it starts anew whenever a watched folder goes or another takes its place. It
drops overflows, and does not see every file system nor the repository itself being renamed, so a slow look stays beside it.
Cancelling alone would take as long as the library's time-out, so a stop event goes with it. The library's `awatch` does not tell
when it is ready, so its lower half is used directly.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from typing import Protocol

import anyio
import anyio.lowlevel
import anyio.to_thread
from anyio.abc import TaskStatus
from watchfiles import Change
from watchfiles._rust_notify import RustNotify

from cueloop_daemon.watch.chain import Key, Level, Spot, spots
from cueloop_daemon.watch.sweep import Look, look_in_thread
from cueloop_daemon.watch.watcher import SAFETY_POLL, Wanted, WatchFailed

STEP_MS = 50
"""How often the library looks into its own set: it wakes up so often while idle, and a hint takes up to twice as long."""
DEBOUNCE_MS = 200
"""How long it may go on collecting while changes do not end."""
ATTEMPTS = 5
"""Failures in a row after which another way of watching must be taken."""
RETRY = 0.2
"""Seconds between them."""


class Notify(Protocol):
    """The library's lower half: it collects from its making on."""

    def watch(self, debounce_ms: int, step_ms: int, timeout_ms: int, stop_event: threading.Event) -> set[tuple[int, str]] | str:
        """Block until something changed (a set of kinds and paths) or the event is set (a word)."""
        ...

    def close(self) -> None:
        """Stop collecting."""
        ...


def open_notify(folders: list[str]) -> Notify:
    """Collect changes of the entries of these folders. Raises OSError or the library's own error."""
    notify: Notify = RustNotify(folders, False, False, 0, False, False)
    return notify


class WatchfilesWatcher:
    """A `Watcher` on watchfiles. `run` raises WatchFailed (perhaps in an exception group) after repeated failures."""

    backend = "watchfiles"
    degraded: str | None = None

    def __init__(self, notify: Callable[[list[str]], Notify] = open_notify, safety_poll: float = SAFETY_POLL) -> None:
        self._notify = notify
        self._safety_poll = safety_poll
        self._wanted = Wanted()
        self._armed: dict[Key, Spot] = {}
        self._spots: dict[str, Spot] = {}
        self._stop = threading.Event()
        self._seen: Look = ()

    def set_paths(self, folders: Iterable[str], files: Iterable[str] = ()) -> None:
        """See `Watcher`."""
        wanted = Wanted(frozenset(folders), frozenset(files))
        if wanted != self._wanted:
            self._wanted = wanted
            self._stop.set()

    async def run(self, on_hint: Callable[[], None], *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """See `Watcher`."""
        ready: Callable[[], None] = task_status.started
        failures = 0
        self._seen = await look_in_thread(self._wanted)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._poll, on_hint)
            while True:
                try:
                    notify = self._open()
                    ready()
                    ready = on_hint
                    await self._listen(notify, on_hint)
                    failures = 0
                except Exception as exc:  # the library's own types, a folder that went in between, a name that is no text
                    failures += 1
                    if failures == ATTEMPTS:
                        raise WatchFailed(
                            f"the system gives no events ({exc}); files are looked at every second instead."
                        ) from exc
                    await anyio.sleep(RETRY)

    def _open(self) -> Notify:
        self._stop = threading.Event()
        self._armed = spots(self._wanted)
        self._spots = {spot.path: spot for spot in self._armed.values() if spot.level > Level.SELF}
        return self._notify(sorted(self._spots))

    async def _listen(self, notify: Notify, on_hint: Callable[[], None]) -> None:
        """Hint until other folders should be watched."""
        stop = self._stop
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_set_at_the_end, stop)
                while not stop.is_set():
                    found = await anyio.to_thread.run_sync(notify.watch, DEBOUNCE_MS, STEP_MS, 0, stop)
                    if not isinstance(found, str) and self._take(found):
                        on_hint()
                tasks.cancel_scope.cancel()
            await anyio.lowlevel.checkpoint_if_cancelled()  # a wait in a thread that was told to stop ends like any other
        finally:
            notify.close()

    def _take(self, changes: set[tuple[int, str]]) -> bool:
        """Whether a hint is due; where a watched folder went or came, what is watched is found out anew."""
        if any(kind == Change.deleted and path in self._spots for kind, path in changes) or self._is_out_of_place():
            self._stop.set()
            return False  # the hint comes when the new folders are watched
        where = (os.path.split(path) for _, path in changes)
        return any(folder not in self._spots or self._spots[folder].concerns(name) for folder, name in where)

    def _is_out_of_place(self) -> bool:
        return spots(self._wanted) != self._armed

    async def _poll(self, on_hint: Callable[[], None]) -> None:
        while True:
            await anyio.sleep(self._safety_poll)
            wanted, before = self._wanted, self._seen
            now = await look_in_thread(wanted)
            if wanted is not self._wanted:
                continue
            self._seen = now
            if self._is_out_of_place():
                self._stop.set()
            elif now != before:
                on_hint()


async def _set_at_the_end(event: threading.Event) -> None:
    try:
        await anyio.sleep_forever()
    finally:
        event.set()

"""The Linux watcher: one inotify queue, no wake-ups while nothing happens, about a millisecond from a rename to its hint."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable

import anyio
from anyio.abc import TaskStatus

from cueloop_daemon.watch import inotify_calls as calls
from cueloop_daemon.watch.chain import Key, Level, Spot, spots
from cueloop_daemon.watch.inotify_calls import InotifyCalls
from cueloop_daemon.watch.limits import explain
from cueloop_daemon.watch.sweep import Look, look_in_thread
from cueloop_daemon.watch.watcher import SAFETY_POLL, Wanted, WatchFailed
from cueloop_protocol.values import dataclass

_MASKS = {Level.SELF: calls.SELF_MASK, Level.ENTRIES: calls.ENTRIES_MASK, Level.CONTENT: calls.CONTENT_MASK}
_READ_SIZE = 256 * 1024
_ROUNDS = 20
"""How often arming starts again while folders are replaced under it; the safety poll looks after the rest."""


@dataclass(frozen=True, slots=True)
class _Armed:
    watch: int
    spot: Spot


class InotifyWatcher:
    """A `Watcher` on inotify. `run` raises WatchFailed (perhaps in an exception group) when the system's limits are reached."""

    backend = "inotify"
    degraded: str | None = None

    def __init__(self, system: InotifyCalls | None = None, safety_poll: float = SAFETY_POLL) -> None:
        self._calls = system or InotifyCalls()
        self._safety_poll = safety_poll
        self._wanted = Wanted()
        self._armed: dict[Key, _Armed] = {}
        self._fd = -1
        self._changed: anyio.Event | None = None
        self._seen: Look = ()

    def set_paths(self, folders: Iterable[str], files: Iterable[str] = ()) -> None:
        """See `Watcher`."""
        wanted = Wanted(frozenset(folders), frozenset(files))
        if wanted != self._wanted:
            self._wanted = wanted
            if self._changed is not None:
                self._changed.set()

    async def run(self, on_hint: Callable[[], None], *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """See `Watcher`."""
        try:
            self._changed = anyio.Event()
            self._open()
            self._arm()
            self._seen = await look_in_thread(self._wanted)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read_events, on_hint)
                tasks.start_soon(self._follow_paths, on_hint)
                tasks.start_soon(self._poll, on_hint)
                task_status.started()
        finally:
            self._changed = None
            self._close()

    async def _read_events(self, on_hint: Callable[[], None]) -> None:
        while True:
            await anyio.wait_readable(self._fd)
            try:
                data = os.read(self._fd, _READ_SIZE)
            except BlockingIOError:
                continue
            if self._take(data):
                on_hint()

    async def _follow_paths(self, on_hint: Callable[[], None]) -> None:
        while True:
            assert self._changed is not None
            await self._changed.wait()
            self._changed = anyio.Event()
            self._arm()
            self._seen = await look_in_thread(self._wanted)
            on_hint()

    async def _poll(self, on_hint: Callable[[], None]) -> None:
        """Find what comes without an event: no events on that file system, a link above led elsewhere, no close."""
        while True:
            await anyio.sleep(self._safety_poll)
            wanted, before = self._wanted, self._seen
            now = await look_in_thread(wanted)
            if wanted is not self._wanted:
                continue
            self._seen = now
            for key in [key for key, armed in self._armed.items() if armed.watch < 0]:
                self._forget(key)
            moved = spots(wanted).keys() != self._armed.keys()
            if moved:
                self._arm()
            if moved or now != before:
                on_hint()

    def _take(self, data: bytes) -> bool:
        """Digest events; True if a hint is due. Watches are set anew *before* the hint, so that nothing falls in between."""
        by_watch = {armed.watch: (key, armed.spot) for key, armed in self._armed.items()}
        hint = stale = False
        for event in calls.parse(data):
            if event.mask & calls.OVERFLOW:
                self._close()
                self._open()
                self._arm()
                return True
            key, spot = by_watch.get(event.watch, (None, None))
            if key is None or spot is None:
                continue
            if event.mask & calls.GONE:
                # Also where the same inode number comes again: the number is used again, the watch is not.
                self._forget(key)
                hint = stale = True
            elif spot.concerns(event.name):
                hint = True
                stale = stale or not event.mask & calls.CLOSE_WRITE
        if stale:
            self._arm()
        return hint

    def _arm(self) -> None:
        """Make the kernel's watches what `spots` asks for, until it asks for nothing else. Raises WatchFailed."""
        for _ in range(_ROUNDS):
            wanted = spots(self._wanted)
            if {key: (spot.level, spot.names) for key, spot in wanted.items()} == {
                key: (armed.spot.level, armed.spot.names) for key, armed in self._armed.items()
            }:
                return
            for key in self._armed.keys() - wanted.keys():
                self._forget(key)
            for key, spot in wanted.items():
                self._add(key, spot)

    def _add(self, key: Key, spot: Spot) -> None:
        armed = self._armed.get(key)
        watch = armed.watch if armed is not None and armed.spot.level == spot.level else self._watch(key, spot)
        if watch is not None:
            self._armed[key] = _Armed(watch, spot)

    def _watch(self, key: Key, spot: Spot) -> int | None:
        """The kernel's number; -1 where we may not watch; None if another folder has taken the place since we looked."""
        fd = -1
        try:
            # Through a descriptor, so that what is watched is the folder that was looked at and not its successor.
            fd = os.open(spot.path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            status = os.fstat(fd)
            if (status.st_dev, status.st_ino) != key:
                return None
            return self._calls.add(self._fd, f"/proc/self/fd/{fd}", _MASKS[spot.level])
        except PermissionError:
            return -1
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as exc:
            raise WatchFailed(explain(exc)) from exc
        finally:
            if fd >= 0:
                os.close(fd)

    def _forget(self, key: Key) -> None:
        armed = self._armed.pop(key, None)
        if armed is not None and armed.watch >= 0:
            with contextlib.suppress(OSError):
                self._calls.remove(self._fd, armed.watch)

    def _open(self) -> None:
        try:
            self._fd = self._calls.init()
        except OSError as exc:
            raise WatchFailed(explain(exc)) from exc

    def _close(self) -> None:
        self._armed.clear()
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

"""The repository for every caller: views, kept current by looking at their inputs before each answer."""

from __future__ import annotations

import gc
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import anyio
import anyio.to_process
import anyio.to_thread
from anyio.abc import TaskStatus

from cueloop_daemon.core.model import ActiveRun, OwedTask, QueueLock
from cueloop_daemon.store.git import Git
from cueloop_daemon.watch.clock import Clock
from cueloop_daemon.workspace.files import FileCache
from cueloop_daemon.workspace.loading import (
    Loaded,
    Loader,
    Packed,
    QueueCache,
    QueuePlace,
    pack_file,
    queue_lock,
    queue_places,
    size_of,
)
from cueloop_daemon.workspace.view import DIRTY_SECONDS, Dirt, View
from cueloop_protocol.roots import Caller, Root

logger = logging.getLogger(__name__)

MAX_VIEWS = 8
BIG_QUEUE = 256 * 1024
"""A queue file from this size (bytes) is parsed in a worker process: a C parser holds the interpreter for the whole parse."""


@dataclass(frozen=True, slots=True)
class Caches:
    """What was read of the files, by path; believed only as long as their stat is the same."""

    files: FileCache
    queues: QueueCache
    dirt: Mapping[Caller, Dirt]
    """What git said, by caller; asked again behind the answers when it is two seconds old, as always."""

    @classmethod
    def empty(cls, clock: Clock) -> Caches:
        """Nothing was read yet."""
        wall_ns = wall_clock_ns(clock)
        return cls(FileCache(wall_ns), QueueCache(wall_ns), {})


def warm(root: Root, caller: Caller, clock: Clock, git: Git) -> Caches:
    """Read everything that the caller's answers depend on, here and now: for who must answer soon and has the time before.

    Git may take seconds in a large repository, or hang until its limit. Blocking; not for an event loop.
    """
    found = Caches.empty(clock)
    Loader(root, found.files, found.queues, wall_clock_ns(clock)).load(caller)
    dirty = anyio.run(git.is_dirty, root, caller)
    return Caches(found.files, found.queues, {caller: Dirt(dirty, clock.now(), clock.monotonic())})


class Workspace:
    """All views of one repository. `changed` is called after any view was swapped, from the event loop."""

    def __init__(
        self,
        root: Root,
        default: Caller,
        *,
        clock: Clock,
        next_revision: Callable[[], int],
        git: Git,
        caches: Caches | None = None,
    ) -> None:
        """`caches`: files that this process has read already (`warm`)."""
        self.root = root
        self.default = default
        self.active_run: ActiveRun | None = None
        self.owed: tuple[OwedTask, ...] = ()
        self.refreshes = 0
        """How often files were read anew for a snapshot."""
        self.changed: Callable[[], None] = lambda: None
        self.listened: frozenset[Caller] = frozenset()
        """Callers for whom somebody listens: their views stay, also beyond `MAX_VIEWS`."""
        self._clock = clock
        self._wall_ns = wall_ns = wall_clock_ns(clock)
        self._next_revision = next_revision
        self._git = git
        self._views: OrderedDict[Caller, View] = OrderedDict()
        self._latest: View | None = None
        caches = caches or Caches.empty(clock)
        self._known_dirt = caches.dirt
        self._queues = caches.queues
        self._loader = Loader(root, caches.files, self._queues, wall_ns)
        self._dirty_views: set[View] = set()
        self._dirt_wanted = anyio.Event()
        self._loading = anyio.Lock()
        self._threads = anyio.CapacityLimiter(4)

    def views(self) -> list[View]:
        """Every view that is held, least recently used first."""
        return list(self._views.values())

    def view(self, caller: Caller | None) -> View:
        """The view of `caller`, or of the daemon's own user; made if there is none, and then the least recently used one goes."""
        who = caller or self.default
        if self._latest is not None and self._latest.caller is who:
            return self._latest  # the usual case, without hashing
        view = self._views.get(who)
        if view is None:
            view = View(who, self._next_revision)
            if (dirt := self._known_dirt.get(who)) is not None:
                view.swap_dirt(dirt)
        self.hold(view)
        return view

    def hold(self, view: View) -> None:
        """Have `view` as its caller's one, also if it went meanwhile, for others that were used since."""
        self._views[view.caller] = self._latest = view
        view.show_owed(self.owed)
        self._views.move_to_end(view.caller)
        if len(self._views) > MAX_VIEWS:
            spare = [caller for caller in self._views if caller not in (view.caller, self.default, *self.listened)]
            for caller in spare[: len(self._views) - MAX_VIEWS]:
                del self._views[caller]

    def show_run(self, run: ActiveRun | None) -> None:
        """This run is active now, in every snapshot from this turn on; None: none is."""
        self.active_run = run
        for view in self._views.values():
            view.show_run(run)
        self.changed()

    def show_owed(self, owed: tuple[OwedTask, ...]) -> None:
        """Accepted work is to be settled by the next start of a run; previews show what that will be."""
        self.owed = owed
        for view in self._views.values():
            view.show_owed(owed)
        self.changed()

    def is_current(self, view: View, *, exact: bool = False) -> bool:
        """Whether the view's snapshot may be answered from without waiting for anything."""
        return not exact and view.dirt is not None and view.is_current(self._wall_ns, self.active_run, self._lock)

    def _lock(self) -> QueueLock | None:
        return queue_lock(self.root)

    def dirt_is_old(self, view: View) -> bool:
        return view.dirt is None or self._clock.monotonic() - view.dirt.checked_monotonic > DIRTY_SECONDS

    async def refresh(self, view: View, *, exact: bool = False) -> None:
        """Make the view current: read what changed, and ask git if it was never asked or `exact` is set.

        It is its caller's view when this returns, whoever else came meanwhile.
        """
        async with view.lock:
            if not view.is_current(self._wall_ns, self.active_run, self._lock):
                self.refreshes += 1
                loaded = await self._load(view.caller)
                if view.swap(loaded, self.active_run):
                    self.changed()
        if exact or view.dirt is None:
            await self.check_dirt(view)
        self.hold(view)

    async def check_dirt(self, view: View) -> None:
        """Ask git now whether the work tree is dirty."""
        dirty = await self._git.is_dirty(self.root, view.caller)
        if view.swap_dirt(Dirt(dirty, self._clock.now(), self._clock.monotonic())):
            self.changed()

    def look_at_dirt_soon(self, view: View) -> None:
        """Ask git behind the answers, if it was not asked for two seconds. Cheap; the asking is done by `run`."""
        if self.dirt_is_old(view):
            self._dirty_views.add(view)
            self._dirt_wanted.set()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Ask git what `look_at_dirt_soon` wants to know, one view after the other, until cancelled."""
        task_status.started()
        while True:
            await self._dirt_wanted.wait()
            self._dirt_wanted = anyio.Event()
            while self._dirty_views:
                view = self._dirty_views.pop()
                if self.dirt_is_old(view):
                    await self.check_dirt(view)

    async def _load(self, caller: Caller) -> Loaded:
        async with self._loading:
            for _ in range(3):
                loaded = await anyio.to_thread.run_sync(self._load_small, caller, limiter=self._threads)
                if isinstance(loaded, Loaded):
                    return loaded
                for place in loaded:
                    await self._parse_elsewhere(place)
            return await anyio.to_thread.run_sync(self._loader.load, caller, limiter=self._threads)

    def _load_small(self, caller: Caller) -> Loaded | list[QueuePlace]:
        """Everything; or, before that, the big queue files that a worker process must parse first."""
        config = self._loader.config(caller)
        big = [
            place
            for place in queue_places(config, self.root, caller)
            if self._queues.lookup(place) is None and size_of(place.io) >= BIG_QUEUE
        ]
        return big or self._loader.load(caller)

    async def _parse_elsewhere(self, place: QueuePlace) -> None:
        """Have a worker process parse the file. One that was killed leaves the file as it is: at last it is parsed here."""
        known = self._queues.content(place)
        try:
            packed = await anyio.to_process.run_sync(pack_file, place.io, place.shown, known, cancellable=True)
        except anyio.BrokenWorkerProcess:
            logger.warning("worker_process_died path=%s", place.shown)
            return
        await anyio.to_thread.run_sync(self._unpack, place, packed, limiter=self._threads)

    def _unpack(self, place: QueuePlace, packed: Packed) -> None:
        # The collector would walk every row while they are made; none of them can be garbage.
        gc.disable()
        try:
            self._queues.keep_packed(place, packed)
        finally:
            gc.enable()


def wall_clock_ns(clock: Clock) -> Callable[[], int]:
    """The clock's wall time in nanoseconds, for comparing with time stamps of files."""

    def read() -> int:
        moment = clock.now()
        return int(moment.timestamp()) * 1_000_000_000 + moment.microsecond * 1000

    return read

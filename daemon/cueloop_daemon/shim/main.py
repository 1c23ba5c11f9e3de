"""The shim's life: one poll loop, and what is looked after at each turn and each tick. Standard library only."""

from __future__ import annotations

import os
import time

from cueloop_daemon.shim import kin
from cueloop_daemon.shim.door import Door, Link
from cueloop_daemon.shim.launch import Place, exists, is_root_there
from cueloop_daemon.shim.lean import signal, suppress
from cueloop_daemon.shim.loop import READ, Clock, Loop
from cueloop_daemon.shim.orders import Orders
from cueloop_daemon.shim.output import Budget
from cueloop_daemon.shim.record import Record
from cueloop_daemon.shim.spec import LOCK_FILE, TOMBSTONE
from cueloop_daemon.shim.wake import Waker
from cueloop_daemon.shim.wire import RUNS, Signal, Start, Wish, encode

TICK = 1.0
PRESSING = 0.05
"""Seconds between two looks while a child is being ended."""
GROWN = 0.1
"""Seconds between two words on how the output has grown."""
GONE = 3.0
"""Seconds that root or folder must be missing: a checkout makes them blink."""
GREETING = 10.0
"""Seconds in which whoever started the shim should say hello."""
FAREWELL = 10.0
"""Seconds after a cancel by signal in which a daemon may still ask."""


class Shim:
    """Everything of one run's shim."""

    def __init__(self, place: Place, up: dict[str, object]) -> None:
        self.clock = Clock(time.monotonic)
        self._loop = Loop()
        self._place = place
        self._record = Record(place.folder)
        self._record.add("up", **up)
        self.door = Door(place.spec.socket, place.spec.run_id, self._loop, self.clock, self._obey)
        budget = Budget(place.folder, place.spec.budget)
        self._orders = Orders(
            place, encode("up", **up), self._record, budget, self._loop, self.clock, self.door.push, self.door.reply
        )
        self.door.state = self._orders.state
        self._waker = Waker(place)
        self._signals: set[int] = set()
        self._ticked_at = self._looked_at = self._grown_at = 0.0
        self._told = (0, 0)
        self._gone_since: float | None = None
        self._leave_at: float | None = None
        self._listen_to_signals()

    def run(self) -> str:
        """Serve until it is time to leave; why it was. No child and no lock is left behind, whatever happens."""
        why = ""
        try:
            while (why := self._why_to_leave()) == "":
                self._loop.turn(self._timeout())
                self.clock.tick()
                self._advance()
        finally:
            self._clean_up()
            self._record.add("bye", why=why or "fault")
            self.door.close()
        return why

    def _obey(self, wish: Wish, link: Link) -> bytes | None:
        self._waker.rest()
        answer = self._orders.obey(wish)
        if answer is None and isinstance(wish, (Start, Signal)):
            link.waiting.add(("start" if isinstance(wish, Start) else "signal", wish.n))
        return answer

    def _listen_to_signals(self) -> None:
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda got, _frame: self._signals.add(got))
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

        def drain(_: int) -> None:
            with suppress(BlockingIOError):
                os.read(reading, 4096)

        self._loop.watch(reading, READ, drain)

    def _timeout(self) -> float:
        child = self._orders.child
        if child is not None and child.is_pressing:
            return PRESSING
        if child is not None and child.sizes != self._told and self.door.link is not None:
            return GROWN
        return TICK

    def _advance(self) -> None:
        now = self.clock.now
        child = self._orders.child
        if self._signals & {signal.SIGTERM, signal.SIGINT}:
            self._orders.cancel()
        is_pressing = child is not None and child.is_pressing and now - self._looked_at >= PRESSING
        if self._signals or self._orders.is_stirred or is_pressing or now - self._ticked_at >= TICK:
            self._signals.clear()
            self._looked_at = now
            self._orders.advance()
        if now - self._ticked_at >= TICK:
            self._ticked_at = now
            self._tick(now)
        self._tell_growth(now)

    def _tick(self, now: float) -> None:
        self._record.flush()
        self.door.look_after()
        self._watch_folder(now)
        if self._orders.child is None:
            kin.reap_orphans(None)
            kin.end_kin(kin.living(-1), -1, signal.SIGKILL)  # who slipped through while its child was ended
        if self._is_daemon_wanted(now):
            self._waker.advance(now)
        else:
            self._waker.rest()

    def _is_daemon_wanted(self, now: float) -> bool:
        """Whether a run is not over, nothing of it is under way here, and nobody is there to carry it on."""
        was_greeted = self.door.generation >= 0 or now >= GREETING
        is_idle = self._orders.child is None and not self._orders.is_cancelled
        return was_greeted and is_idle and self.door.link is None and self._gone_since is None

    def _tell_growth(self, now: float) -> None:
        child = self._orders.child
        if child is None:
            self._told = (0, 0)
        elif child.sizes != self._told and now - self._grown_at >= GROWN:
            self._grown_at, self._told = now, child.sizes
            self.door.push(encode("grown", n=child.n, out=child.sizes[0], err=child.sizes[1]))

    def _watch_folder(self, now: float) -> None:
        if self._is_place_there():
            self._gone_since = None
        elif self._gone_since is None:
            self._gone_since = now
        elif now - self._gone_since >= GONE:
            self._orders.end_child("folder")

    def _is_place_there(self) -> bool:
        """Whether root, folder and lock file are where they were, and the run is not settled."""
        place = self._place
        if exists(place.folder, TOMBSTONE):
            return False
        try:
            folder = os.stat(f"{RUNS}/{place.spec.run_id}", dir_fd=place.root)
            lock = os.stat(LOCK_FILE, dir_fd=place.folder, follow_symlinks=False)
        except OSError:
            return False
        is_ours = os.path.samestat(folder, os.fstat(place.folder)) and os.path.samestat(lock, os.fstat(place.lock))
        return is_ours and is_root_there(place)

    def _why_to_leave(self) -> str:
        """Empty: stay."""
        now, orders = self.clock.now, self._orders
        if orders.is_over:
            return "end"
        if orders.child is not None:
            return ""
        if self._gone_since is not None and now - self._gone_since >= GONE:
            return "folder"
        if orders.is_cancelled:
            orders.locking.unlock(0)
            self._leave_at = now + FAREWELL if self._leave_at is None else self._leave_at
            return "cancelled" if now >= self._leave_at else ""
        return ""

    def _clean_up(self) -> None:
        """Nothing that the run started may go on without a shim."""
        child = self._orders.child
        group = -1 if child is None else child.pid
        for _ in range(20):
            left = kin.living(group)
            if not left:
                break
            kin.end_kin(left, group, signal.SIGKILL)
            time.sleep(PRESSING)
            kin.reap_orphans(None if child is None else child.pid)
        self._orders.locking.unlock(0)

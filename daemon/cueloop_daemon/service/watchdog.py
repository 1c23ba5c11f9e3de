"""Signs of life for the manager's watchdog: what hangs here is not seen from outside, since the socket still takes connections."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Event, Thread

import anyio

from cueloop_daemon.service.notify import Notifier

logger = logging.getLogger(__name__)

BEATS = 3
"""Signs in each period of the watchdog: one may come late."""
STUCK = 600.0
"""Seconds after which a log that does not come back from the disk counts as hung, if the disk itself answers. A file server that is
away hangs the log, too; to start again would hang in the same place.
"""


class Watchdog:
    """Tells that the loop runs and that a thread still gets its turn, until the log hangs where the disk does not.

    `stuck_for` gives the seconds since which the log's lane waits for the disk, 0 if it does not; `probe` asks the same disk
    something small, and may hang: each runs in a thread of its own, none of which holds the process.
    """

    def __init__(self, notifier: Notifier, period: float, stuck_for: Callable[[], float], probe: Callable[[], object]) -> None:
        self._notifier = notifier
        self._pause = period / BEATS
        self._stuck_for = stuck_for
        self._probe = probe
        self._answered: Event | None = None

    async def run(self) -> None:
        """Until cancelled."""
        beats: SimpleQueue[bool] = SimpleQueue()
        Thread(target=self._beat, args=(beats,), name="watchdog", daemon=True).start()
        try:
            while True:
                if self.is_well():
                    beats.put(True)
                await anyio.sleep(self._pause)
        finally:
            beats.put(False)

    def is_well(self) -> bool:
        """Whether a sign is due; to be asked once in each beat."""
        stuck = self._stuck_for()
        if stuck < STUCK:
            self._answered = None
            return True
        if self._answered is None:
            self._answered = Event()
            Thread(target=self._ask, args=(self._answered,), name="watchdog probe", daemon=True).start()
            return True
        if self._answered.is_set():
            logger.error("event_log_hangs seconds=%d remedy=%s", stuck, "the disk answers; the service manager starts us again")
            return False
        return True

    def _ask(self, answered: Event) -> None:
        with suppress(OSError):  # an answer, too
            self._probe()
        answered.set()

    def _beat(self, beats: SimpleQueue[bool]) -> None:
        """The loop puts a beat in, and this thread sends it: neither can do it alone."""
        while beats.get():
            self._notifier.alive()

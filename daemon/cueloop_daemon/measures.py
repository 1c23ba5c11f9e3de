"""What the daemon measures of itself beside what its parts count: hints of the watcher, and how late the event loop was."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio

from cueloop_daemon.server.traffic import Traffic

EVERY = 5.0
"""Seconds between two looks at the loop. Each is a wake-up, and an idle daemon has few."""


@dataclass(slots=True)
class Measures:
    """One per daemon; touched from the loop alone."""

    traffic: Traffic = field(default_factory=Traffic)
    hints: int = 0
    loop_lag_max: float = 0.0

    def counting(self, hint: Callable[[], None]) -> Callable[[], None]:
        """`hint`, counted."""

        def counted() -> None:
            self.hints += 1
            hint()

        return counted

    async def watch_loop(self, monotonic: Callable[[], float]) -> None:
        """See how late a timer fires, until cancelled. `monotonic` gives seconds that do not count the machine's sleep."""
        while True:
            due = monotonic() + EVERY
            await anyio.sleep(EVERY)
            self.loop_lag_max = max(self.loop_lag_max, monotonic() - due)


def open_descriptors() -> int:
    """How many files, sockets and pipes this process has open; 0 where the system does not tell."""
    try:
        return max(0, len(os.listdir("/dev/fd")) - 1)  # without the one that lists them
    except OSError:
        return 0

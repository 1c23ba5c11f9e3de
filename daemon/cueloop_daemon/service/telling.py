"""The one line about this daemon that a service manager shows to people."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

import anyio

from cueloop_daemon.service.notify import Notifier

EVERY = 2.0


class Run(Protocol):
    """What of a run is told."""

    @property
    def run_id(self) -> str: ...
    @property
    def task_id(self) -> str | None: ...
    @property
    def phase(self) -> str | None: ...
    @property
    def state(self) -> str: ...


class StatusLine:
    """What runs, or since when nothing does. `stuck_for`: seconds since which the event log waits for the disk."""

    def __init__(self, active: Callable[[], Run | None], now: Callable[[], datetime], stuck_for: Callable[[], float]) -> None:
        self._active = active
        self._now = now
        self._stuck_for = stuck_for
        self._idle_since = now()

    def text(self) -> str:
        """The line as it is now."""
        run = self._active()
        if run is not None:
            self._idle_since = self._now()
            parts = (run.task_id, run.phase, None if run.state == "running" else run.state)
            return ": ".join((f"run {run.run_id}", ", ".join(part for part in parts if part) or "running")) + self._trouble()
        return f"no run since {self._idle_since.astimezone():%Y-%m-%d %H:%M}{self._trouble()}"

    def _trouble(self) -> str:
        stuck = self._stuck_for()
        return f"; the event log has been waiting for the disk for {stuck:.0f} s" if stuck >= 10 else ""


async def tell(notifier: Notifier, line: Callable[[], str]) -> None:
    """Keep the manager's line up to date, until cancelled."""
    while True:
        notifier.status(line())
        await anyio.sleep(EVERY)

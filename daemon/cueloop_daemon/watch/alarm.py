"""Waiting for a moment of the wall clock, and telling when that clock jumped."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import anyio
from anyio.abc import TaskStatus

from cueloop_daemon.watch.bell import HEARTBEAT, Bell, system_bell
from cueloop_daemon.watch.clock import Clock, ClockJump, jumps, read


class Alarm:
    """Moments and jumps of one clock. Any number of tasks may wait."""

    def __init__(self, clock: Clock, open_bell: Callable[[], Bell] = system_bell) -> None:
        self._clock = clock
        self._open_bell = open_bell

    async def wait_until(self, moment: datetime) -> None:
        """Return when the wall clock shows `moment` (aware) or later: never before, at most 50 ms after, also if it jumps."""
        with self._open_bell() as bell:
            while (left := (moment - self._clock.now()).total_seconds()) > 0:
                await bell.wait(left)

    async def run(
        self, on_jump: Callable[[ClockJump], None], *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Call `on_jump` once for each jump, sleep or stop, until cancelled; on the event loop."""
        with self._open_bell() as bell:
            before = read(self._clock)
            task_status.started()
            while True:
                await bell.wait(HEARTBEAT)
                after = read(self._clock)
                for jump in jumps(before, after, HEARTBEAT):
                    on_jump(jump)
                before = after

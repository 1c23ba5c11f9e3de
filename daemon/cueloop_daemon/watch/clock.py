"""The time as it is told to everything below `__main__`, and what happened to it between two readings."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from typing import Literal, Protocol

from cueloop_protocol.values import dataclass

SET_THRESHOLD = 0.5
"""Seconds; a smaller step of the wall clock is a correction. Slewing is no jump at all: it bends all clocks alike."""
SLEEP_THRESHOLD = 1.0
STOP_THRESHOLD = 5.0
"""Seconds that a wake-up may be late before the process counts as having been stopped."""


class Clock(Protocol):
    """The wall clock, and two that never jump: one stands while the machine sleeps, the other runs on."""

    def now(self) -> datetime:
        """The wall clock, UTC, aware."""
        ...

    def monotonic(self) -> float:
        """Seconds since some moment, without the time that the machine slept."""
        ...

    def boottime(self) -> float:
        """Seconds since some moment, with the time that the machine slept."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        """See `Clock`."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """See `Clock`."""
        return time.clock_gettime(_AWAKE)

    def boottime(self) -> float:
        """See `Clock`."""
        return time.clock_gettime(_ALWAYS)


if sys.platform == "darwin":
    # There CLOCK_MONOTONIC counts sleep, and CLOCK_UPTIME_RAW does not.
    _AWAKE, _ALWAYS = time.CLOCK_UPTIME_RAW, time.CLOCK_MONOTONIC
elif sys.platform == "linux":
    _AWAKE, _ALWAYS = time.CLOCK_MONOTONIC, time.CLOCK_BOOTTIME
else:
    _AWAKE = _ALWAYS = time.CLOCK_MONOTONIC


@dataclass(frozen=True, slots=True)
class ClockJump:
    """Time that passed otherwise than it seemed to. `seconds` is negative only where the wall clock was set back.

    `set`: the wall clock was set. `sleep`: the machine slept. `stop`: this process stood still while the machine did not.
    """

    seconds: float
    kind: Literal["set", "sleep", "stop"]


@dataclass(frozen=True, slots=True)
class Reading:
    """All clocks at one moment, in seconds."""

    wall: float
    awake: float
    always: float


def read(clock: Clock) -> Reading:
    """A reading of the clock."""
    return Reading(clock.now().timestamp(), clock.monotonic(), clock.boottime())


def jumps(before: Reading, after: Reading, planned: float) -> tuple[ClockJump, ...]:
    """What happened between two readings that were to be at most `planned` seconds apart; each cause once."""
    wall, awake, always = after.wall - before.wall, after.awake - before.awake, after.always - before.always
    found = []
    if abs(wall - always) >= SET_THRESHOLD:
        found.append(ClockJump(wall - always, "set"))
    if always - awake >= SLEEP_THRESHOLD:
        found.append(ClockJump(always - awake, "sleep"))
    if awake - planned >= STOP_THRESHOLD:
        found.append(ClockJump(awake - planned, "stop"))
    return tuple(found)

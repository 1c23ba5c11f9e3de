"""Waiting some seconds, or less where the wall clock jumps meanwhile."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import time
from collections.abc import Callable
from functools import cache
from types import TracebackType
from typing import Protocol, Self

import anyio

TICK = 1.0
"""Seconds between two looks at the clock where the system does not tell when it is set."""
HEARTBEAT = 4.0
"""The same where it does: only a stopped process, or a clock that is faked for this process alone, is found by looking."""

_NONBLOCK, _CLOEXEC = 0o4000, 0o2000000
_ABSTIME, _CANCEL_ON_SET = 1, 2
_NEVER = min(2**33, sys.maxsize)
"""Seconds since 1970; far enough for a timer that is only there to be cancelled."""


class Bell(Protocol):
    """A context manager; jumps of the wall clock are noticed from entering on."""

    def __enter__(self) -> Self:
        """Begin to notice."""
        ...

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None) -> None:
        """Free what noticing needs."""
        ...

    async def wait(self, seconds: float) -> None:
        """Return after `seconds` at the latest; at once when the wall clock is or was set; possibly for no reason."""
        ...


class TickingBell:
    """Looks often; works everywhere."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None) -> None:
        return

    async def wait(self, seconds: float) -> None:
        """See `Bell`."""
        await anyio.sleep(min(seconds, TICK))


class TimerfdBell:
    """Linux: a timer that never rings but is cancelled by the kernel when the wall clock is set or the machine wakes up.

    Without a descriptor for it (too many open files) it ticks.
    """

    def __init__(self, open_timer: Callable[[], int] | None = None) -> None:
        self._open_timer = open_timer or open_timerfd
        self._fd = -1

    def __enter__(self) -> Self:
        with contextlib.suppress(OSError):
            self._fd = self._open_timer()
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    async def wait(self, seconds: float) -> None:
        """See `Bell`."""
        if self._fd < 0:
            await anyio.sleep(min(seconds, TICK))
            return
        with anyio.move_on_after(min(seconds, HEARTBEAT)):
            await anyio.wait_readable(self._fd)
            with contextlib.suppress(OSError):  # ECANCELED is the news, and reading it makes ready for the next
                os.read(self._fd, 8)


def system_bell() -> Bell:
    """The best one for this system."""
    return TimerfdBell() if sys.platform == "linux" else TickingBell()


def open_timerfd() -> int:
    """A timer descriptor that becomes readable when the wall clock is set. Raises OSError."""
    fd = _checked(_libc().timerfd_create(time.CLOCK_REALTIME, _NONBLOCK | _CLOEXEC))
    try:
        never = _TimerSpec(0, 0, _NEVER, 0)
        _checked(_libc().timerfd_settime(fd, _ABSTIME | _CANCEL_ON_SET, ctypes.byref(never), None))
    except OSError:
        os.close(fd)
        raise
    return fd


class _TimerSpec(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_long) for name in ("interval_s", "interval_ns", "value_s", "value_ns"))


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result

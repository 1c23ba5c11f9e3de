"""One poll loop, and a clock that does not run while the process is stopped. Standard library only."""

from __future__ import annotations

import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MOST_PER_TURN = 2.0
"""Seconds that may pass between two readings of the clock: twice the longest wait. What is more is a gap (sleep, SIGSTOP)."""
READ = select.POLLIN
WRITE = select.POLLOUT


class Clock:
    """Seconds lived: monotonic time, of which each gap between two ticks counts at most MOST_PER_TURN.

    Limits are measured by it, so that a laptop's sleep or a SIGSTOP fires none of them.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._last = monotonic()
        self.now = 0.0

    def tick(self) -> None:
        """Let time pass."""
        reading = self._monotonic()
        self.now += min(max(reading - self._last, 0.0), MOST_PER_TURN)
        self._last = reading


class Loop:
    """Descriptors and what is called when they are ready. A call may come for nothing: read and write without blocking."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._calls: dict[int, Callable[[int], None]] = {}

    def watch(self, fd: int, events: int, call: Callable[[int], None]) -> None:
        """Call with the events; again for the same descriptor: the new ones instead."""
        self._poll.register(fd, events)
        self._calls[fd] = call

    def forget(self, fd: int) -> None:
        """No more calls for the descriptor; before it is closed."""
        if self._calls.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def turn(self, timeout: float) -> None:
        """Wait at most `timeout` seconds and make the calls that are due."""
        for fd, events in self._poll.poll(max(0, int(timeout * 1000))):
            call = self._calls.get(fd)
            if call is not None:
                call(events)

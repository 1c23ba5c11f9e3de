"""A clock and its bell that move only when a test moves them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Self

import anyio

EPOCH = datetime(2026, 2, 7, 10, tzinfo=UTC)


class FakeClock:
    """Implements `watch.clock.Clock`. `bell` gives bells that ring when this clock is moved past their time, or is set."""

    def __init__(self, start: datetime = EPOCH, *, tells_when_set: bool = True) -> None:
        self._now = start
        self._awake = 1000.0
        self._always = 2000.0
        self._tells_when_set = tells_when_set
        self.waiting: list[FakeBell] = []

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._awake

    def boottime(self) -> float:
        return self._always

    def bell(self) -> FakeBell:
        """To be given to `Alarm` as `open_bell`."""
        return FakeBell(self)

    def advance(self, seconds: float) -> None:
        """Time passes, and whoever waits for it goes on."""
        self._pass(seconds, seconds)
        self._ring(only_due=True)

    def sleep(self, seconds: float) -> None:
        """The machine sleeps and wakes up."""
        self._pass(0, seconds)
        self._ring(only_due=not self._tells_when_set)

    def set(self, moment: datetime) -> None:
        """Somebody sets the wall clock."""
        self._now = moment
        self._ring(only_due=not self._tells_when_set)

    def _pass(self, awake: float, always: float) -> None:
        self._awake += awake
        self._always += always
        self._now += timedelta(seconds=always)

    def _ring(self, *, only_due: bool) -> None:
        for bell in list(self.waiting):
            if not only_due or self._awake >= bell.due:
                bell.rung.set()


class FakeBell:
    """Implements `watch.bell.Bell`."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.due = 0.0
        self.rung = anyio.Event()
        self.open = False

    def __enter__(self) -> Self:
        self.open = True
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None) -> None:
        self.open = False

    async def wait(self, seconds: float) -> None:
        assert self.open
        self.due = self._clock.monotonic() + seconds
        self.rung = anyio.Event()
        self._clock.waiting.append(self)
        try:
            await self.rung.wait()
        finally:
            self._clock.waiting.remove(self)

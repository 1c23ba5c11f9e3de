"""When a daemon counts as idle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import anyio
import pytest

from cueloop_daemon import housekeeping
from cueloop_daemon.housekeeping import Housekeeping
from cueloop_daemon.server.listener import Listener
from cueloop_daemon.store.ownership import Ownership
from cueloop_protocol.roots import Root
from cueloop_protocol.shapes import ShutdownReason
from fake_clock import FakeClock


class House(Housekeeping):
    """Its look at the world is left out, and each takes a minute."""

    def __init__(self, clock: FakeClock) -> None:
        nothing = cast(Ownership, None), cast(Listener, None)
        super().__init__(Root("/", "/"), *nothing, self.go, lambda _: None)
        self.clock = clock
        self.left: list[ShutdownReason] = []
        self.going = anyio.Event()

    def go(self, reason: ShutdownReason) -> None:
        self.left.append(reason)
        self.going.set()

    def look(self, now: float) -> None:
        self.clock.advance(60)


@pytest.mark.parametrize(
    ("traffic", "minutes"),
    [([(0, 7)], 31), ([(1, 8)] * 10 + [(0, 8)], 41), ([(0, number) for number in range(20)], 50)],
    ids=["nobody comes", "one is there for a while", "many come and go between two looks"],
)
async def test_who_was_there_between_two_looks_counts_too(
    traffic: list[tuple[int, int]], minutes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "EVERY", 0)
    clock = FakeClock()
    house = House(clock)
    begun = clock.monotonic()
    told: Iterator[tuple[int, int]] = iter(traffic)

    def now() -> tuple[int, int]:
        return next(told, traffic[-1])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(house.run, clock, lambda: 30, now, lambda: False)
        await house.going.wait()
        tasks.cancel_scope.cancel()
    assert house.left[0] == "idle"
    assert (clock.monotonic() - begun) // 60 == pytest.approx(minutes, abs=2)


async def test_a_run_or_a_question_keeps_the_daemon_though_nobody_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "EVERY", 0)
    clock = FakeClock()
    house = House(clock)
    begun = clock.monotonic()

    def is_busy() -> bool:
        return clock.monotonic() - begun < 10 * 3600

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(house.run, clock, lambda: 30, lambda: (0, 1), is_busy)
        await house.going.wait()
        tasks.cancel_scope.cancel()
    assert (clock.monotonic() - begun) // 60 == pytest.approx(630, abs=2)


async def test_zero_minutes_mean_never(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "EVERY", 0)
    clock = FakeClock()
    house = House(clock)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(house.run, clock, lambda: 0, lambda: (0, 1), lambda: False)
        while clock.monotonic() < 1000 + 20 * 3600:
            await anyio.sleep(0)
        tasks.cancel_scope.cancel()
    assert house.left == []

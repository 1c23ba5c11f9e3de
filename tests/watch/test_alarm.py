"""Moments are never met early, at most 50 ms late, and whatever is done to the clock meanwhile."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import timedelta

import anyio
import anyio.lowlevel
import pytest
from anyio import wait_all_tasks_blocked

from cueloop_daemon.watch import bell as bells
from cueloop_daemon.watch.alarm import Alarm
from cueloop_daemon.watch.bell import HEARTBEAT, TICK, Bell, TickingBell, TimerfdBell, open_timerfd, system_bell
from cueloop_daemon.watch.clock import ClockJump, SystemClock
from fake_clock import EPOCH, FakeClock


class Waiter:
    """A task that waits for a moment and says when it is over."""

    def __init__(self, clock: FakeClock, seconds: float) -> None:
        self._alarm = Alarm(clock, clock.bell)
        self._moment = EPOCH + timedelta(seconds=seconds)
        self.over = False

    async def __call__(self) -> None:
        await self._alarm.wait_until(self._moment)
        self.over = True


async def test_a_moment_is_met_at_its_second_and_not_before() -> None:
    clock = FakeClock()
    waiter = Waiter(clock, 3600)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(waiter)
        await wait_all_tasks_blocked()
        for step in (1, 3598.999):
            clock.advance(step)
            await wait_all_tasks_blocked()
            assert not waiter.over
        clock.advance(0.001)
        await wait_all_tasks_blocked()
        assert waiter.over


@pytest.mark.parametrize("seconds", [0, -1, -(10**6)])
async def test_a_moment_that_is_past_is_met_at_once(seconds: float) -> None:
    waiter = Waiter(FakeClock(), seconds)
    await waiter()
    assert waiter.over


async def test_d29_a_clock_set_past_the_moment_meets_it_at_once() -> None:
    clock = FakeClock()
    waiter = Waiter(clock, 3600)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(waiter)
        await wait_all_tasks_blocked()
        clock.set(EPOCH + timedelta(hours=8))
        await wait_all_tasks_blocked()
        assert waiter.over


async def test_d29_a_machine_that_slept_past_the_moment_meets_it_on_waking() -> None:
    clock = FakeClock()
    waiter = Waiter(clock, 3600)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(waiter)
        await wait_all_tasks_blocked()
        clock.sleep(3599)
        await wait_all_tasks_blocked()
        assert not waiter.over
        clock.sleep(1)
        await wait_all_tasks_blocked()
        assert waiter.over


async def test_a23_a_clock_set_back_makes_the_moment_later() -> None:
    clock = FakeClock()
    waiter = Waiter(clock, 10)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(waiter)
        await wait_all_tasks_blocked()
        clock.set(EPOCH - timedelta(hours=1))
        await wait_all_tasks_blocked()
        clock.advance(3609)
        await wait_all_tasks_blocked()
        assert not waiter.over
        clock.advance(1)
        await wait_all_tasks_blocked()
        assert waiter.over


async def jumps_of(clock: FakeClock, what: Callable[[], None]) -> list[ClockJump]:
    """What an alarm tells when `what` happens to its clock, and then a heartbeat passes twice."""
    found: list[ClockJump] = []
    async with anyio.create_task_group() as tasks:
        await tasks.start(Alarm(clock, clock.bell).run, found.append)
        await wait_all_tasks_blocked()
        what()
        for _ in range(2):
            await wait_all_tasks_blocked()
            clock.advance(HEARTBEAT)
        await wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    return found


@pytest.mark.parametrize("tells", [True, False], ids=["told", "by looking"])
async def test_each_jump_is_told_once(tells: bool) -> None:
    def clock() -> FakeClock:
        return FakeClock(tells_when_set=tells)

    one = clock()
    assert await jumps_of(one, lambda: one.set(EPOCH + timedelta(hours=1))) == [ClockJump(3600.0, "set")]
    one = clock()
    assert await jumps_of(one, lambda: one.set(EPOCH - timedelta(hours=1))) == [ClockJump(-3600.0, "set")]
    one = clock()
    assert await jumps_of(one, lambda: one.sleep(28800)) == [ClockJump(28800.0, "sleep")]
    one = clock()
    assert await jumps_of(one, lambda: one.advance(HEARTBEAT + 60)) == [ClockJump(60.0, "stop")]
    one = clock()
    assert await jumps_of(one, lambda: None) == []


async def test_the_real_clock_meets_a_moment_within_50_ms() -> None:
    clock = SystemClock()
    alarm = Alarm(clock)
    late = []
    for _ in range(5):
        moment = clock.now() + timedelta(milliseconds=30)
        with anyio.fail_after(5):
            await alarm.wait_until(moment)
        late.append((clock.now() - moment).total_seconds())
    assert min(late) >= 0
    assert sorted(late)[2] < 0.05


def descriptors() -> int:
    return len(os.listdir("/dev/fd"))


async def test_the_kernel_s_timer_wakes_nobody_and_is_given_back() -> None:
    await anyio.sleep(0)
    before = descriptors()
    with TimerfdBell() as bell:
        assert descriptors() == before + 1
        started = time.monotonic()
        await bell.wait(0.1)
        assert time.monotonic() - started >= 0.099
        with anyio.move_on_after(0.01) as scope:
            await bell.wait(60)
        assert scope.cancelled_caught
    assert descriptors() == before


async def test_a_wall_clock_that_is_set_ends_the_wait_at_once_and_again() -> None:
    """An eventfd stands for the timer: readable is all that a cancelled timer is."""
    fd = os.eventfd(0, os.EFD_NONBLOCK)
    with TimerfdBell(lambda: fd) as bell, anyio.fail_after(HEARTBEAT * 0.9):
        for _ in range(2):
            os.eventfd_write(fd, 1)  # also when it happened before the wait
            await bell.wait(60)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bell.wait, 60)
            await wait_all_tasks_blocked()
            os.eventfd_write(fd, 1)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


async def test_a_cancelled_timer_s_error_is_the_news(monkeypatch: pytest.MonkeyPatch) -> None:
    fd = os.eventfd(1, os.EFD_NONBLOCK)
    seen = []

    def read(descriptor: int, size: int) -> bytes:
        seen.append(descriptor)
        raise OSError(125, "Operation canceled")

    with TimerfdBell(lambda: fd) as bell, anyio.fail_after(HEARTBEAT * 0.9), monkeypatch.context() as patch:
        patch.setattr(bells.os, "read", read)
        await bell.wait(60)
        assert fd in seen


async def test_without_a_descriptor_it_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    def open_timer() -> int:
        raise OSError(24, "Too many open files")

    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(bells.anyio, "sleep", sleep)
    bell: Bell
    for bell in (TimerfdBell(open_timer), TickingBell()):
        with bell:
            await bell.wait(60)
            await bell.wait(0.25)
    assert waits == [TICK, 0.25, TICK, 0.25]


def test_the_kernel_refuses_nothing_that_it_should_take() -> None:
    fd = open_timerfd()
    with pytest.raises(BlockingIOError):
        os.read(fd, 8)
    assert not os.get_inheritable(fd)
    with open(f"/proc/self/fdinfo/{fd}") as file:
        facts = dict(line.split(":") for line in file)
    assert int(facts["clockid"]) == time.CLOCK_REALTIME
    assert int(facts["settime flags"], 8) == 1 | 2  # TFD_TIMER_ABSTIME, TFD_TIMER_CANCEL_ON_SET
    os.close(fd)


def test_a_refusal_leaks_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    before = descriptors()
    monkeypatch.setattr(bells, "_ABSTIME", 1 << 20)
    with pytest.raises(OSError, match="Invalid argument"):
        open_timerfd()
    monkeypatch.setattr(bells, "_CLOEXEC", 1)
    with pytest.raises(OSError, match="Invalid argument"):
        open_timerfd()
    assert descriptors() == before


@pytest.mark.parametrize(("system", "kind"), [("linux", TimerfdBell), ("darwin", TickingBell)])
def test_each_system_has_its_bell(monkeypatch: pytest.MonkeyPatch, system: str, kind: type) -> None:
    monkeypatch.setattr(bells.sys, "platform", system)
    assert type(system_bell()) is kind

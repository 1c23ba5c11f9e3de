"""Signs of life: given while all is well, withheld where the log hangs and the disk does not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import anyio
import pytest

from cueloop_daemon.service.notify import Notifier
from cueloop_daemon.service.telling import StatusLine
from cueloop_daemon.service.watchdog import STUCK, Watchdog


class Heard(Notifier):
    """Keeps what is told, and by which thread."""

    def __init__(self) -> None:
        super().__init__(None, lambda: 0.0)
        self.beats: list[str] = []
        self.changed = threading.Condition()

    def alive(self) -> None:
        with self.changed:
            self.beats.append(threading.current_thread().name)
            self.changed.notify_all()

    def wait(self, count: int) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: len(self.beats) >= count, 10)


async def test_signs_come_from_a_thread_at_the_loop_s_pace() -> None:
    heard = Heard()
    dog = Watchdog(heard, 0.03, lambda: 0.0, lambda: None)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(dog.run)
        assert await anyio.to_thread.run_sync(heard.wait, 5)
        tasks.cancel_scope.cancel()
    assert set(heard.beats) == {"watchdog"}
    await anyio.to_thread.run_sync(lambda: _ended("watchdog"))
    told = len(heard.beats)
    with heard.changed:
        assert not heard.changed.wait_for(lambda: len(heard.beats) > told, 0.1)


async def test_a_loop_that_hangs_gives_no_sign() -> None:
    heard = Heard()
    dog = Watchdog(heard, 0.03, lambda: 0.0, lambda: None)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(dog.run)
        assert await anyio.to_thread.run_sync(heard.wait, 2)
        told = len(heard.beats)
        time.sleep(0.2)  # the whole loop
        assert len(heard.beats) <= told + 1
        tasks.cancel_scope.cancel()


def test_a_log_that_hangs_is_borne_while_the_disk_hangs_too() -> None:
    disk = threading.Event()
    dog = Watchdog(Heard(), 30.0, lambda: STUCK + 1, disk.wait)
    assert [dog.is_well() for _ in range(5)] == [True] * 5
    disk.set()
    _until(lambda: not dog.is_well())


def test_a_log_that_comes_back_is_well_again() -> None:
    stuck = [STUCK + 1]
    dog = Watchdog(Heard(), 30.0, lambda: stuck[0], lambda: None)
    assert dog.is_well()  # asked, and not answered yet
    _until(lambda: not dog.is_well())
    stuck[0] = 0.0
    assert dog.is_well()
    stuck[0] = STUCK - 1
    assert dog.is_well()


def test_a_disk_that_answers_with_an_error_answers() -> None:
    def probe() -> None:
        raise OSError

    dog = Watchdog(Heard(), 30.0, lambda: STUCK, probe)
    assert dog.is_well()
    _until(lambda: not dog.is_well())


class Run:
    run_id, task_id, phase, state = "r-1", "RQ-0001", "plan", "running"


class Asking(Run):
    state = "asking"


class Bare(Run):
    task_id = phase = None


@pytest.mark.parametrize(
    ("run", "wanted"),
    [(Run(), "run r-1: RQ-0001, plan"), (Asking(), "run r-1: RQ-0001, plan, asking"), (Bare(), "run r-1: running")],
)
def test_the_line_says_what_runs(run: Run, wanted: str) -> None:
    assert StatusLine(lambda: run, lambda: datetime.now(UTC), lambda: 0.0).text() == wanted


def test_the_line_says_since_when_nothing_runs_and_what_hangs() -> None:
    now, run, stuck = [datetime(2026, 2, 7, 10, tzinfo=UTC)], list[Run](), [0.0]
    line = StatusLine(lambda: run[0] if run else None, lambda: now[0], lambda: stuck[0])
    began = now[0].astimezone()
    assert line.text() == f"no run since {began:%Y-%m-%d %H:%M}"
    now[0] += timedelta(hours=1)
    assert line.text() == f"no run since {began:%Y-%m-%d %H:%M}"
    run.append(Run())
    line.text()
    run.clear()
    stuck[0] = 12.0
    assert line.text().startswith(f"no run since {now[0].astimezone():%Y-%m-%d %H:%M}; the event log has been waiting")


def _until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def _ended(name: str) -> None:
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join(10)
            assert not thread.is_alive()

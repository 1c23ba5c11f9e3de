"""Decisions that change by themselves: by the clock alone, and when somebody sets it. Needs libfaketime (Debian: `faketime`)."""

from __future__ import annotations

import glob
import os
import signal
import statistics
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cueloop_daemon.watch.bell import HEARTBEAT
from cueloop_daemon.watch.clock import STOP_THRESHOLD
from support.repository import session
from support.wire import Wire
from support.world import Daemon, World

HOUR = timedelta(hours=1)


@pytest.mark.alone
def test_a_session_that_times_out_is_heard_at_that_second(world: World, wire: Wire) -> None:
    """No file is touched: within 50 ms of the second, never before it."""
    world.repository.configure(session_timeout_hours=1)
    wire.subscribe(caller=world.caller)
    late = []
    for number in range(5):
        born = datetime.now(UTC) - HOUR + timedelta(seconds=0.7)
        text = born.strftime("%Y-%m-%dT%H:%M:%S.%f") + "Z"
        world.repository.put(world.repository.session, session(last_updated_at=text, tasks_completed_in_loop=number))
        assert [wire.event()["kind"] for _ in range(2)] == ["resume_decision", "config_resolved"]
        event = wire.event()
        late.append((datetime.now(UTC) - born - HOUR).total_seconds())
        assert event["payload"]["reason"] == "session_timed_out_requires_confirmation"
        assert wire.event()["kind"] == "config_resolved"
    assert min(late) >= 0
    assert statistics.median(late) < 0.05, late


class FakeTime:
    """The wall clock of a daemon that a test starts, as an offset in a file of its home.

    There the library looks also when the variable that could name a file is gone: a daemon keeps no variable of its starter's.
    """

    def __init__(self, world: World) -> None:
        libraries = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1") + glob.glob("/usr/lib/faketime/libfaketimeMT.so.1")
        assert libraries, "libfaketime is not installed (Debian: apt-get install faketime)"
        self._file: Path = world.home / ".faketimerc"
        self.set(0)
        self.environ = {
            "LD_PRELOAD": libraries[0],
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }

    def set(self, seconds: float) -> None:
        """The wall clock is that much ahead, from now on."""
        other = self._file.with_suffix(".new")
        other.write_text(f"{seconds:+g}\n")
        os.rename(other, self._file)


@pytest.fixture
def fake_time(world: World) -> FakeTime:
    return FakeTime(world)


@pytest.mark.alone
def test_a_clock_set_forward_by_an_hour_is_noticed(world: World, fake_time: FakeTime) -> None:
    world.repository.configure(session_timeout_hours=1)
    world.repository.put(world.repository.session, session())
    daemon = world.start(at_home=True, environ=fake_time.environ)
    with daemon.connect() as wire:
        found = wire.subscribe(caller=world.caller)["snapshot"]["document"]
        assert found["resume_preview"]["reason"] == "session_valid"
        fake_time.set(3600)
        began = time.monotonic()
        events = wire.events_until(lambda event: event["kind"] == "config_resolved")
        assert time.monotonic() - began < 2 * HEARTBEAT  # half of it is for the machine
        warnings = [event["message"] for event in events if event["kind"] == "warning"]
        assert len(warnings) == 1
        assert "+3600 s" in warnings[0]
        assert [event["payload"]["reason"] for event in events if event["kind"] == "resume_decision"] == [
            "session_timed_out_requires_confirmation"
        ]
        fake_time.set(0)
        events = wire.events_until(lambda event: event["kind"] == "config_resolved")
        assert [event["payload"]["reason"] for event in events if event["kind"] == "resume_decision"] == ["session_valid"]
    assert daemon.stop() == 0


def test_eight_hours_are_one_warning_and_cost_nothing_that_is_ours_d29(world: World, fake_time: FakeTime) -> None:
    daemon = world.start(at_home=True, environ=fake_time.environ)
    with daemon.connect() as wire:
        wire.subscribe(caller=world.caller)
        fake_time.set(8 * 3600)
        assert "+28800 s" in wire.event()["message"]
        world.repository.configure(session_timeout_hours=2)
        assert wire.event()["kind"] == "config_resolved"
        assert wire.call("daemon.status")["state"] == "serving"
    assert world.daemons() == [daemon.pid]
    assert daemon.stop() == 0


def test_a_daemon_that_was_stopped_longer_than_its_limits_keeps_what_is_its_own_d29(
    world: World, daemon: Daemon, wire: Wire
) -> None:
    """Stopped for longer than the heartbeat and the threshold for noticing take together."""
    wire.subscribe(caller=world.caller)
    inode = (world.repository.ours / "lock").stat().st_ino
    daemon.send(signal.SIGSTOP)
    time.sleep(HEARTBEAT + STOP_THRESHOLD + 1)
    daemon.send(signal.SIGCONT)
    event = wire.event()
    assert event["kind"] == "warning"
    assert "stopped" in event["message"]
    world.repository.configure(session_timeout_hours=2)
    assert wire.event()["kind"] == "config_resolved"
    assert (world.repository.ours / "lock").stat().st_ino == inode

"""A process whose wall clock libfaketime changes while it waits: no event comes for that, and it is noticed all the same."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

LIBRARY = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), None)
PROGRAM = """
import sys
from datetime import timedelta
import anyio
from cueloop_daemon.watch import Alarm, ClockJump, SystemClock

async def main():
    clock = SystemClock()
    alarm = Alarm(clock)
    def told(jump):
        print("jump", jump.kind, round(jump.seconds), flush=True)
    async def meet(moment):
        await alarm.wait_until(moment)
        print("met", round((clock.now() - moment).total_seconds() * 1000), flush=True)
    async with anyio.create_task_group() as tasks:
        await tasks.start(alarm.run, told)
        tasks.start_soon(meet, clock.now() + timedelta(milliseconds=200))
        tasks.start_soon(meet, clock.now() + timedelta(minutes=59))
        print("ready", clock.now().year, flush=True)

anyio.run(main, backend=sys.argv[1])
"""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_d29_a_faked_clock_set_forward_by_an_hour(tmp_path: Path, backend: str) -> None:
    """Under a clock that was always wrong a moment is met to the millisecond; then it jumps, and everything due is met."""
    assert LIBRARY is not None, "libfaketime is missing: apt-get install libfaketime"
    stamp = tmp_path / "faketimerc"
    stamp.write_text("-7200h\n")
    environ = os.environ | {
        "LD_PRELOAD": str(LIBRARY),
        "FAKETIME_TIMESTAMP_FILE": str(stamp),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DISABLE_SHM": "1",
    }
    with subprocess.Popen([sys.executable, "-c", PROGRAM, backend], env=environ, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().startswith("ready 20")
            kind, late = process.stdout.readline().split()
            assert kind == "met"
            assert 0 <= int(late) < 50
            changed = tmp_path / "new"
            changed.write_text("-7199h\n")
            changed.rename(stamp)
            started = time.monotonic()
            lines = sorted(process.stdout.readline().strip() for _ in range(2))
            assert lines[0] == "jump set 3600"
            assert 60_000 <= int(lines[1].removeprefix("met ")) < 70_000  # set to a minute past the moment
            assert time.monotonic() - started < 10
        finally:
            process.kill()

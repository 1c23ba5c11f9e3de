"""Stacks: of tasks and threads, and on SIGUSR1 also of a loop that is blocked."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

import anyio
import pytest

from cueloop_daemon.dump.stacks import task_stacks, thread_stacks

SCRIPT = """
import logging, select, signal, sys
import anyio
from cueloop_daemon.dump.signalled import StackSignal

def blocked_here():
    print("blocked", flush=True)
    select.select([sys.stdin], [], [])

async def waits_here():
    await anyio.sleep_forever()

async def main():
    logging.basicConfig(level="INFO", format="%(message)s", stream=sys.stdout)
    with anyio.open_signal_receiver(signal.SIGUSR1) as received, StackSignal(sys.argv[1]) as stacks:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(waits_here, name="the waiting one")
            await anyio.wait_all_tasks_blocked()
            if sys.argv[2] == "blocked":
                blocked_here()
            print("free", flush=True)
            async for _ in received:
                stacks.tell()
                print("told", flush=True)
                break
            tasks.cancel_scope.cancel()

anyio.run(main, backend=sys.argv[3])
"""


async def waits_in_the_middle(event: anyio.Event) -> None:
    await waits_at_the_end(event)


async def waits_at_the_end(event: anyio.Event) -> None:
    await event.wait()


async def test_a_task_is_told_from_its_first_call_to_what_it_waits_for() -> None:
    event = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(waits_in_the_middle, event, name="mine")
        await anyio.wait_all_tasks_blocked()
        (mine,) = [task for task in task_stacks() if task.name == "mine"]
        event.set()
    names = [frame.split(" ")[-1] for frame in mine.frames]
    assert names.index("waits_in_the_middle") < names.index("waits_at_the_end") < len(names) - 1
    assert any(frame.startswith("tests/dump/test_stacks.py:") for frame in mine.frames)
    assert mine.state == "waiting"


async def test_many_tasks_are_told_up_to_a_limit_and_cost_the_loop_little() -> None:
    event = anyio.Event()
    async with anyio.create_task_group() as tasks:
        for _ in range(2000):
            tasks.start_soon(waits_in_the_middle, event)
        await anyio.wait_all_tasks_blocked()
        spent = list[float]()
        for _ in range(5):
            began = time.thread_time()
            found = task_stacks()
            spent.append(time.thread_time() - began)
        event.set()
    assert len(found) == 500
    assert min(spent) < 0.1  # a tenth of it where nobody else needs the processor; the collector's walks are not its own cost


def test_threads_are_told_by_name() -> None:
    inside, leave = Event(), Event()

    def stands_here() -> None:
        inside.set()
        leave.wait(30)

    thread = Thread(target=stands_here, name="the other one")
    thread.start()
    inside.wait(30)
    found = {one.name: one.frames for one in thread_stacks()}
    leave.set()
    thread.join()
    assert any(frame.endswith("stands_here") for frame in found["the other one"])
    assert found["MainThread"][-1].endswith("thread_stacks")


def wait_for(ready: Callable[[], bool]) -> None:
    limit, pause = time.monotonic() + 30, Event()
    while not ready():
        assert time.monotonic() < limit
        pause.wait(0.01)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("how", ["blocked", "free"])
def test_on_the_signal_a_blocked_loop_tells_too(tmp_path: Path, how: str, backend: str) -> None:
    stacks = tmp_path / "stacks.txt"
    argv = [sys.executable, "-c", SCRIPT, str(stacks), how, backend]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == f"{how}\n"
        os.kill(process.pid, signal.SIGUSR1)
        if how == "blocked":
            wait_for(lambda: stacks.exists() and "main" in stacks.read_text())
            assert "in blocked_here" in stacks.read_text()
            assert stacks.stat().st_mode & 0o777 == 0o600
            assert not select.select([process.stdout], [], [], 0)[0]
        said, _ = process.communicate("go\n", timeout=30)
    finally:
        process.kill()
        process.wait()
    assert said.endswith("told\n")
    assert "name=the waiting one state=waiting stack=" in said
    assert "waits_here" in said
    assert "thread name=MainThread stack=" in said
    assert process.returncode == 0
    assert not stacks.exists()


def test_where_no_file_can_be_standard_error_takes_them(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", SCRIPT, str(tmp_path / "none" / "stacks.txt"), "free", "asyncio"]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = process.stdout.readline()
    assert "stacks_not_kept" in said
    assert process.stdout.readline() == "free\n"
    os.kill(process.pid, signal.SIGUSR1)
    said, errors = process.communicate(timeout=30)
    assert said.endswith("told\n")
    assert "most recent call first" in errors

"""Runs: what one costs beside its agent, how soon a shim is there, and what becomes of an agent that says a great deal."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.figure import Figure, in_turns, percentile
from bench.floor_process import process_ms
from bench.processes import peak_mb, resident_mb
from bench.wire import Wire
from bench.world import STAMP, World, cueloop, daemon, end_daemon
from cueloop_daemon.shim.command import command_line
from cueloop_daemon.shim.spec import RunSpec, file_bytes

QUIET = """#!/bin/sh
cat > /dev/null
echo '{"type":"system","subtype":"init","session_id":"11111111-2222-4333-8444-555555555555"}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"nothing","session_id":"11111111-2222-4333-8444-555555555555"}'
"""
"""An agent that does nothing."""

PING = b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {}}\n'

LOUD = """#!/bin/sh
'''exec' "{python}" -IS "$0" "$@"
' '''
import os, sys
sys.stdin.read()
print('{{"type":"system","subtype":"init","session_id":"11111111-2222-4333-8444-555555555555"}}', flush=True)
piece = memoryview((b"x" * 99 + b"\\n") * 10_000)
for _ in range({megabytes}):
    sent = 0
    while sent < len(piece):
        sent += os.write(1, piece[sent:])
print('{{"type":"result","subtype":"success","is_error":false,"result":"much","session_id":"11111111-2222-4333-8444-555555555555"}}')
"""
"""An agent that prints so many megabytes of short lines."""


def run_cost(world: World) -> Iterator[Figure]:
    """`cueloop machine run one` to its end, less what its agent takes alone: without a daemon, and with one."""
    agent = _agent(world, QUIET)

    def once() -> float:
        _one_task(world)
        return process_ms(world, cueloop(world, "machine", "run", "one"))

    def cold() -> float:
        end_daemon(world)
        return once()

    def alone() -> float:
        return process_ms(world, (str(agent),))

    try:
        for name, measure, target in (("run_overhead_cold", cold, 450.0), ("run_overhead_warm", once, 100.0)):
            runs, floors = in_turns(world.scale.runs, measure, alone)
            over = tuple(run - floor for run, floor in zip(runs, floors, strict=True))
            yield Figure(name, "ms", over, target, floors, "the agent alone, which is not counted")
    finally:
        end_daemon(world)


def shim_start(world: World) -> Iterator[Figure]:
    """From the start of a shim to its word that it is ready."""
    numbers = iter(range(1000))
    runs, floors = in_turns(
        3 * world.scale.runs,
        lambda: _shim_ms(world, next(numbers)),
        lambda: process_ms(world, (sys.executable, "-I", "-S", "-c", "")),
    )
    yield Figure("shim_start", "ms", runs, 40.0, floors, "`python -I -S -c ''`")


def run_output(world: World) -> Iterator[Figure]:
    """An agent's output, 100 MB of it: the time, the daemon's memory, and how long others wait for their answers meanwhile."""
    agent = _agent(world, LOUD.format(python=sys.executable, megabytes=world.scale.output_megabytes))
    taken, alone, memory, memory_before, waits, waits_before = ([] for _ in range(6))
    for _ in range(max(1, world.scale.runs // 2)):
        with daemon(world) as it:
            _one_task(world)
            waits_before.append(max(_waits(it.socket, _Times(50))))
            memory_before.append(resident_mb(it.pid))
            with _asking(it.socket) as waited:
                taken.append(process_ms(world, cueloop(world, "machine", "run", "one")) / 1000)
            waits.append(max(waited))
            memory.append(peak_mb(it.pid))
        alone.append(process_ms(world, ("sh", "-c", f"{agent} > {world.root.parent}/copy")) / 1000)
    yield Figure("run_output_time", "s", tuple(taken), 3.0, tuple(alone), "the agent alone, into a file")
    yield Figure("run_output_memory", "MB", tuple(memory), 80.0, tuple(memory_before), "the daemon before the run")
    beside: dict[str, float | str] = {"p99": percentile(waited, 0.99), "asked": float(len(waited))}
    yield Figure(
        "run_output_wait", "ms", tuple(waits), 20.0, tuple(waits_before), "the longest of 50 without a run", beside=beside
    )


def _agent(world: World, text: str) -> Path:
    """The agent, named in the user's own configuration, which needs no trust."""
    program = world.root.parent / "claude"
    program.write_text(text)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    folder = Path(world.env["HOME"]) / ".config" / "cueloop"
    folder.mkdir(parents=True, exist_ok=True)
    sonnet = {f"phase{number}": {"runner": "claude", "model": "sonnet"} for number in (1, 2, 3)}
    agent = {"runner": "claude", "model": "sonnet", "claude_bin": str(program), "phases": 1, "phase_overrides": sonnet}
    (folder / "config.jsonc").write_text(json.dumps({"version": 2, "agent": agent | {"notification": {"enabled": False}}}))
    return program


def _one_task(world: World) -> None:
    """A queue of one task that is to be done, and no session."""
    world.session.unlink(missing_ok=True)
    (world.root / ".cueloop" / "done.jsonc").unlink(missing_ok=True)
    task = {"id": "RQ-0001", "status": "todo", "title": "Nothing", "created_at": STAMP, "updated_at": STAMP}
    world.replace(world.queue, json.dumps({"version": 1, "tasks": [task]}))


def _shim_ms(world: World, number: int) -> float:
    folder = world.root / ".cueloop" / "cache" / "cueloopd" / "runs" / f"bench-{number}"
    folder.mkdir(parents=True)
    socket = str(world.root.parent / "run" / f"{number}.sock")
    spec = RunSpec(
        run_id=folder.name,
        protocol=1,
        root=str(world.root),
        socket=socket,
        daemon_argv=(),
        daemon_env={},
        budget=1 << 28,
        grace=1.0,
    )
    (folder / "run.json").write_bytes(file_bytes(spec))
    root_fd, run_fd = (os.open(path, os.O_RDONLY | os.O_DIRECTORY) for path in (world.root, folder))
    near, far = os.pipe()
    began = time.perf_counter()
    child = subprocess.Popen(
        command_line(sys.executable, root_fd, run_fd, far),
        pass_fds=(root_fd, run_fd, far),
        stdin=subprocess.DEVNULL,
        cwd="/",
        env={},
        start_new_session=True,
    )
    for fd in (root_fd, run_fd, far):
        os.close(fd)
    with open(near, encoding="utf-8") as pipe:
        said = json.loads(pipe.readline() or "{}")
    took = (time.perf_counter() - began) * 1000
    child.kill()  # it has nothing to end; asked politely it would wait for a daemon
    child.wait(20)
    if "ready" not in said:
        raise RuntimeError(f"the shim did not start: {said}")
    return took


@contextmanager
def _asking(socket: str) -> Iterator[list[float]]:
    """Ask the daemon again and again during the block; afterwards the list has how long each answer took, in milliseconds."""
    over, waited = threading.Event(), list[float]()
    thread = threading.Thread(target=lambda: waited.extend(_waits(socket, over)))
    thread.start()
    try:
        yield waited
    finally:
        over.set()
        thread.join()


class _Times:
    """Is set when it was asked so often."""

    def __init__(self, number: int) -> None:
        self._left = number

    def is_set(self) -> bool:
        self._left -= 1
        return self._left < 0


def _waits(socket: str, over: threading.Event | _Times) -> list[float]:
    waits = []
    with Wire(socket) as wire:
        while not over.is_set():
            began = time.perf_counter()
            wire.exchange(PING)
            waits.append((time.perf_counter() - began) * 1000)
            time.sleep(0.002)
    return waits

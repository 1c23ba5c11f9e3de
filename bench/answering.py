"""Requests to a warm daemon: how long one takes, and what it costs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

from bench.figure import Figure, in_turns
from bench.floor_process import floor_process, process_ms
from bench.processes import cpu_seconds
from bench.wire import Wire, request
from bench.world import World, daemon

RESOLVE = request("config.resolve")
PING = request("ping")
GIT = ("git", "--no-optional-locks", "status", "--porcelain")


def round_trips(wire: Wire, line: bytes, count: int) -> float:
    """The median time of `count` exchanges, in microseconds."""
    times = []
    for _ in range(count):
        began = time.perf_counter()
        wire.exchange(line)
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e6


CONNECTIONS = 10


def cpu_each(pid: int, wires: list[Wire], line: bytes, count: int) -> float:
    """CPU time of process `pid` for one of `count` exchanges, in microseconds; each connection has one under way at a time."""
    before = cpu_seconds(pid)
    for _ in range(count // len(wires)):
        for wire in wires:
            wire.sock.sendall(line)
        for wire in wires:
            wire.line()
    return (cpu_seconds(pid) - before) / (count // len(wires) * len(wires)) * 1e6


def resolve(world: World) -> Iterator[Figure]:
    """A preview of an unchanged repository, beside one `git status` of it."""
    with daemon(world) as served, Wire(served.socket) as wire:
        runs, floors = in_turns(
            world.scale.runs,
            lambda: round_trips(wire, RESOLVE, world.scale.requests // 4),
            lambda: process_ms(world, GIT) * 1000,
        )
    yield Figure("config_resolve_warm", "us", runs, 200.0, floors, "one `git status` process of the same repository")


def cpu(world: World) -> Iterator[Figure]:
    """What a request costs the daemon, all its threads together, from ten connections and from one."""
    path = f"{world.root.parent}/echo.sock"
    with daemon(world) as served, floor_process(world, "echo", path) as echo, ExitStack() as stack:
        ours = [stack.enter_context(Wire(served.socket)) for _ in range(CONNECTIONS)]
        bare = [stack.enter_context(Wire(path)) for _ in range(CONNECTIONS)]
        for name, line in (("cpu_config_resolve", RESOLVE), ("cpu_ping", PING)):
            for suffix, number in (("", CONNECTIONS), ("_alone", 1)):
                runs, floors = in_turns(
                    world.scale.runs,
                    partial(cpu_each, served.pid, ours[:number], line, world.scale.requests),
                    partial(cpu_each, echo, bare[:number], line, world.scale.requests),
                )
                yield Figure(
                    name + suffix, "us", runs, 60.0, floors, "a bare anyio echo of the request", beside={"clients": number}
                )


def ping(world: World) -> Iterator[Figure]:
    """The shortest round trip, beside a bare echo by anyio."""
    path = f"{world.root.parent}/echo.sock"
    with daemon(world) as served, floor_process(world, "echo", path), Wire(served.socket) as wire, Wire(path) as bare:
        count = world.scale.requests // 2
        runs, floors = in_turns(world.scale.runs, lambda: round_trips(wire, PING, count), lambda: round_trips(bare, PING, count))
    yield Figure("ping_round_trip", "us", runs, None, floors, "a bare anyio echo of the same line", 2.5)

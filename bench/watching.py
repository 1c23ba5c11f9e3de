"""From a changed file to the event; and what a daemon costs that has nothing to do."""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Iterator

from bench.figure import Figure, percentile
from bench.floor_process import floor_process
from bench.processes import more, resident_mb, threads, wakeups
from bench.wire import WAIT, Wire
from bench.world import Daemon, World, daemon, queue_text

QUIET = 0.06
"""Seconds between two changes: longer than a file read within 20 ms of its change is looked at again."""
SETTLING = 3.0
"""Seconds after which nothing of the start is under way any more (the first answer of git is kept for two)."""


def change_to_event(world: World) -> Iterator[Figure]:
    """A queue file is renamed into place; the event is in the subscriber's hands."""
    fifty, ninety_five, floors = [], [], []
    folder = str(world.queue.parent)
    with (
        daemon(world) as served,
        floor_process(world, "watch", folder),
        Wire(f"{folder}/watch.sock") as bare,
        Wire(served.socket) as wire,
    ):
        wire.call("events.subscribe", {"kinds": ["queue_snapshot"]})
        for run in range(world.scale.runs):
            delays = [_one_change(world, wire, bare, f"{run}.{one}") for one in range(world.scale.changes)]
            events = [event for event, _ in delays]
            fifty.append(percentile(events, 0.5))
            ninety_five.append(percentile(events, 0.95))
            floors.append(percentile([hint for _, hint in delays], 0.5))
    least = "inotify in a process of its own, passed on by one send"
    yield Figure("change_to_event_p50", "ms", tuple(fifty), 10.0, tuple(floors), least)
    yield Figure("change_to_event_p95", "ms", tuple(ninety_five), 50.0, tuple(floors), least)


def _one_change(world: World, wire: Wire, bare: Wire, note: str) -> tuple[float, float]:
    """Milliseconds from the rename to (the event, the bare hint). Whichever comes first is taken first."""
    time.sleep(QUIET)
    new = world.queue.with_suffix(".writing")
    new.write_text(queue_text(10).replace("Task number 9", f"Task {note}"))
    began = time.perf_counter()
    new.rename(world.queue)
    came: dict[Wire, float] = {}
    while len(came) < 2:
        ready = select.select([one.sock for one in (wire, bare) if one not in came], [], [], WAIT)[0]
        if not ready:
            raise TimeoutError("a change was not announced")
        for one in (wire, bare):
            if one.sock in ready:
                came[one] = time.perf_counter() - began
                one.line()
    return came[wire] * 1000, came[bare] * 1000


def idle(world: World) -> Iterator[Figure]:
    """One quiet subscriber, nothing changes."""
    with (
        daemon(world) as served,
        Wire(served.socket) as wire,
        floor_process(world, "echo", f"{world.root.parent}/e.sock") as bare,
    ):
        wire.call("events.subscribe", {})
        time.sleep(SETTLING if world.scale.runs > 1 else 0)
        rates, floors, memory, bare_memory = [], [], [], []
        for _ in range(world.scale.runs):
            ours, least = wakeups(served.pid), wakeups(bare)
            time.sleep(world.scale.idle_seconds)
            rates.append(more(ours, wakeups(served.pid)) / world.scale.idle_seconds)
            floors.append(more(least, wakeups(bare)) / world.scale.idle_seconds)
            memory.append(resident_mb(served.pid))
            bare_memory.append(resident_mb(bare))
        beside = _beside(served)
    yield Figure("idle_wakeups", "1/s", tuple(rates), 5.0, tuple(floors), "a bare anyio server with no connection", beside=beside)
    yield Figure("idle_memory", "MB", tuple(memory), 50.0, tuple(bare_memory), "the same server's memory", beside=beside)


def _beside(served: Daemon) -> dict[str, float | str]:
    return {"threads": threads(served.pid), "python": sys.version.split()[0]}

"""One event to a thousand subscribers, beside one raw send to each."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import anyio

from bench.figure import Figure, percentile
from bench.watching import QUIET
from bench.wire import Wire
from bench.world import Daemon, World, daemon, queue_text
from cueloop_daemon.events.hub import Hub
from cueloop_daemon.events.journal import Journal
from cueloop_daemon.events.model import Filter, Group, NewEvent, Place
from cueloop_daemon.server.writer import Writer
from cueloop_protocol.framing import Kind

EVENT = NewEvent("event", "queue_snapshot", None, None, b'{"origin":"watch","event":{"version":3,"text":"%b"}}' % (b"x" * 350))


def fan_out(world: World) -> Iterator[Figure]:
    """From the commit to the last send: hub, log on disk and writers as the daemon has them, in this process.

    Only here do both sides stand at the same place: a reader would measure its own being woken. Beside it stand the same from
    `publish` on, which waits for the disk first, and the way through a whole daemon to the last of as many connections.
    """
    count = world.scale.subscribers
    place = _place(world.root.parent / "events")
    runs, floors, published, size = anyio.run(_measure, place, count, world.scale.runs * 3)
    whole = percentile(_through_a_daemon(world), 0.5)
    beside: dict[str, float | str] = {
        "subscribers": count,
        "frame_bytes": size,
        "publish_to_last_ms": percentile(published, 0.5),
        "change_to_last_of_all_ms": whole,
    }
    yield Figure("fan_out", "ms", runs, None, floors, "one raw send to each in a loop", 2.0, beside=beside)


def _place(folder: Path) -> Place:
    path = str(folder / "events.db")
    return Place(path, lambda: folder.mkdir(mode=0o700, exist_ok=True), "bench", lambda: "0" * 16, 64 * 1024 * 1024)


class _TimedJournal(Journal):
    """Notes when the last commit was done."""

    committed = 0.0

    async def commit(self, group: Group, is_pressed: Callable[[], bool]) -> None:
        await super().commit(group, is_pressed)
        self.committed = time.perf_counter()


Times = tuple[float, ...]


async def _measure(place: Place, count: int, runs: int) -> tuple[Times, Times, Times, int]:
    """(milliseconds from commit to the last send, of the raw loop, from `publish` on, bytes of a frame), in turns."""
    with ExitStack() as stack:
        pairs = [_pair(stack) for _ in range(count)]
        async with anyio.create_task_group() as tasks:
            journal = _TimedJournal(place, time.monotonic)
            hub = Hub(journal, lambda audience: b"{}")
            await tasks.start(hub.run)
            for ours, _ in pairs:
                writer = Writer(ours, 1 << 20)
                writer.kind = Kind.LINES
                writer.start(tasks)
                hub.start((await hub.subscribe(writer, Filter())).subscription)
            ways = []
            for _ in range(runs + 1):
                began = time.perf_counter()
                hub.publish(EVENT)
                await hub.flush()
                ended = time.perf_counter()
                frame = _read(pairs)
                ways.append(((ended - journal.committed) * 1000, _sent(pairs, frame), (ended - began) * 1000))
                _read(pairs)
            hub.stop()
    mine, least, whole = zip(*ways[1:], strict=True)  # the first one warms up
    return mine, least, whole, len(frame)


def _pair(stack: ExitStack) -> tuple[socket.socket, socket.socket]:
    """Our end, which does not block, and the subscriber's."""
    ours, theirs = (stack.enter_context(one) for one in socket.socketpair())
    ours.setblocking(False)
    theirs.setblocking(False)
    return ours, theirs


def _sent(pairs: list[tuple[socket.socket, socket.socket]], frame: bytes) -> float:
    began = time.perf_counter()
    for ours, _ in pairs:
        ours.send(frame)
    return (time.perf_counter() - began) * 1000


def _read(pairs: list[tuple[socket.socket, socket.socket]]) -> bytes:
    """One frame from each subscriber; the last one. BlockingIOError if one got nothing."""
    return [theirs.recv(65536) for _, theirs in pairs][-1]


def _through_a_daemon(world: World) -> list[float]:
    """Milliseconds from a changed file to the event at the last of all connections; each hears the same, once."""
    delays = []
    with daemon(world) as served, ExitStack() as stack:
        hearing = [stack.enter_context(_subscribed(served)) for _ in range(world.scale.subscribers)]
        for run in range(world.scale.runs):
            time.sleep(QUIET)
            began = time.perf_counter()
            world.replace(world.queue, queue_text(10).replace("Task number 9", f"Task {run}"))
            heard = {json.dumps(wire.event()["event"]) for wire in hearing}
            delays.append((time.perf_counter() - began) * 1000)
            if len(heard) != 1:
                raise RuntimeError(f"the subscribers heard {len(heard)} different things")
    return delays


def _subscribed(served: Daemon) -> Wire:
    wire = Wire(served.socket)
    wire.call("events.subscribe", {"kinds": ["queue_snapshot"]})
    return wire

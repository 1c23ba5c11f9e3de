"""A queue of 10,000 tasks: how soon its change is in the preview, whom it keeps waiting, and what it costs afterwards."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

from bench.answering import PING, RESOLVE, round_trips
from bench.figure import Figure
from bench.floor_process import floor_process
from bench.wire import Wire
from bench.world import Daemon, World, daemon, queue_text

AFTER = 1.0
"""Seconds after which a change is done with, the watch's own reading of it too."""


class Pinging:
    """Pings without a pause from a thread of its own; `worst` is the longest that one was kept waiting (seconds)."""

    def __init__(self, path: str) -> None:
        self._wire = Wire(path)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.worst = 0.0

    def __enter__(self) -> Pinging:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._wire.sock.close()

    def _run(self) -> None:
        while not self._is_over.wait(0.001):
            began = time.perf_counter()
            self._wire.exchange(PING)
            self.worst = max(self.worst, time.perf_counter() - began)


def big_queue(world: World) -> Iterator[Figure]:
    """The file is replaced; a preview is asked for at once, while others go on asking."""
    path = f"{world.root.parent}/echo.sock"
    size = 0
    took, parsed, stalls, bare_stalls = [], [], [], []
    with daemon(world) as served, floor_process(world, "echo", path), Wire(served.socket) as wire:
        for run in range(world.scale.runs + 1):
            text = queue_text(world.scale.tasks, task_bytes=world.scale.task_bytes, note=str(run)).replace('number 7"', f'{run}"')
            size = len(text)
            with Pinging(served.socket) as daemons, Pinging(path) as bare:
                preview = _new_preview(world, wire, text)
                time.sleep(AFTER)
            if run:  # the first one starts the worker process
                took.append(preview)
                stalls.append(daemons.worst * 1000)
                bare_stalls.append(bare.worst * 1000)
                parsed.append(_parse(text))
        yield from _unchanged(world, served)
    beside: dict[str, float | str] = {"tasks": world.scale.tasks, "file_mb": size / 1e6}
    yield Figure(
        "big_queue_preview", "ms", tuple(took), 600.0, tuple(parsed), "json.loads of the same without comments", beside=beside
    )
    least = "the same pings to a bare anyio echo meanwhile"
    yield Figure("big_queue_stall", "ms", tuple(stalls), 25.0, tuple(bare_stalls), least, beside=beside)


def _new_preview(world: World, wire: Wire, text: str) -> float:
    """Milliseconds from the rename to the preview that knows of it."""
    before = json.loads(wire.exchange(RESOLVE))["result"]["revision"]
    new = world.queue.with_suffix(".writing")
    new.write_text(text)
    began = time.perf_counter()
    new.rename(world.queue)
    after = json.loads(wire.exchange(RESOLVE))["result"]["revision"]
    if after <= before:
        raise RuntimeError("the preview did not see the new queue")
    return (time.perf_counter() - began) * 1000


def _parse(text: str) -> float:
    plain = json.dumps({"tasks": [json.loads(one) for one in _objects(text)]})
    began = time.perf_counter()
    json.loads(plain)
    return (time.perf_counter() - began) * 1000


def _objects(text: str) -> Iterator[str]:
    """The tasks in a text that `queue_text` made."""
    for piece in text.split("    // ")[1:]:
        yield piece.partition("\n")[2].rpartition("},")[0] + "}"


def _unchanged(world: World, served: Daemon) -> Iterator[Figure]:
    """The same preview again, beside that of a repository with ten tasks."""
    with ExitStack() as stack:
        small = stack.enter_context(daemon(world.in_folder("small")))
        big_wire, small_wire = (stack.enter_context(Wire(one.socket)) for one in (served, small))
        time.sleep(AFTER)
        count = world.scale.requests // 4
        pairs = []
        for _ in range(world.scale.runs + 1):
            pairs.append((round_trips(big_wire, RESOLVE, count), round_trips(small_wire, RESOLVE, count)))
    big, least = zip(*pairs[1:], strict=True)
    yield Figure("big_queue_unchanged", "us", tuple(big), None, tuple(least), "the same with ten tasks", 1.2)

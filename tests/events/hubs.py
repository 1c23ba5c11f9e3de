"""A hub in a temporary folder, and a connection that takes as much as the test says."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import anyio

from cueloop_daemon.events import Filter, Hub, Journal, NewEvent, Place, Sink, SinkClosed
from cueloop_protocol.cursor import Cursor

EVERYTHING = Filter()


class FakeSink:
    """A connection. `room` frames are taken, then it is congested until `make_room`. Frames one JSON text per line.

    `held` is what it may keep back after it said yes: nothing, so that what a test sees is what the hub handed over.
    """

    def __init__(self, room: float = float("inf"), framing: Callable[[bytes], bytes] = lambda body: body + b"\n") -> None:
        self.room = room
        self.framing = framing
        self.frames: list[bytes] = []
        self.closed = False
        self.refusals = 0
        self.waiting = 0
        self._changed = anyio.Event()

    def frame(self, body: bytes) -> bytes:
        return self.framing(body)

    def offer(self, frame: bytes) -> bool:
        if self.closed or self.room < 1:
            self.refusals += 1
            self._notify()
            return False
        self.room -= 1
        self.frames.append(frame)
        self._notify()
        return True

    async def drained(self) -> None:
        self.waiting += 1
        self._notify()
        try:
            while self.room < 1 or self.closed:
                if self.closed:
                    raise SinkClosed
                await self._changed.wait()
        finally:
            self.waiting -= 1
            self._notify()

    def make_room(self, room: float = float("inf")) -> None:
        self.room = room
        self._notify()

    def close(self) -> None:
        self.closed = True
        self._notify()

    @property
    def messages(self) -> list[Any]:
        """What was told, decoded."""
        return [json.loads(frame) for frame in self.frames]

    @property
    def params(self) -> list[Any]:
        return [message["params"] for message in self.messages]

    @property
    def numbers(self) -> list[int]:
        """The seq of each notification's cursor."""
        return [Cursor.parse(params["cursor"]).seq for params in self.params]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something that this sink takes part in has happened; the condition is looked at after each change."""
        with anyio.fail_after(10):
            while not condition():
                await self._changed.wait()

    async def until_taken(self, frames: int) -> None:
        await self.until(lambda: len(self.frames) >= frames)

    def _notify(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


_conforms: type[Sink] = FakeSink


@dataclass
class Clock:
    """Seconds that pass when the test says so."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def epochs() -> Iterator[str]:
    return (f"epoch{number}" for number in count(1))


@dataclass
class World:
    """A folder with a log in it, and what the log asks of the world. `snapshots` counts what was asked for, by audience."""

    folder: Path
    boot_id: str = "boot-1"
    limit: int = 64 * 1024 * 1024
    clock: Clock = field(default_factory=Clock)
    snapshots: list[str | None] = field(default_factory=list)
    _epochs: Iterator[str] = field(default_factory=epochs)

    @property
    def path(self) -> Path:
        return self.folder / "events.db"

    @property
    def place(self) -> Place:
        return Place(
            path=str(self.path),
            make_folder=lambda: self.folder.mkdir(exist_ok=True),
            boot_id=self.boot_id,
            new_epoch=lambda: next(self._epochs),
            limit=self.limit,
        )

    def snapshot_for(self, audience: str | None) -> bytes:
        self.snapshots.append(audience)
        return json.dumps({"for": audience, "number": len(self.snapshots)}, indent=2).encode()

    def hub(self, **changes: Any) -> Hub:
        return Hub(Journal(replace(self.place, **changes), self.clock), self.snapshot_for)

    def as_after_a_kill(self, name: str) -> World:
        """The same folder as another process finds it when this one is killed now: a copy, taken without closing anything."""
        target = self.folder.parent / name
        target.mkdir()
        for entry in filter(Path.is_file, self.folder.iterdir()):
            shutil.copyfile(entry, target / entry.name)
        return replace(self, folder=target)


@asynccontextmanager
async def running(hub: Hub) -> AsyncIterator[Hub]:
    """The hub at work; stopped at the end, which writes the clean end."""
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            await tasks.start(hub.run)
            yield hub
            hub.stop()


async def listening(hub: Hub, sink: FakeSink, wanted: Filter = EVERYTHING, cursor: Cursor | None = None) -> str:
    """Subscribe and start; the subscription's name."""
    subscribed = await hub.subscribe(sink, wanted, cursor)
    hub.start(subscribed.subscription)
    return subscribed.subscription


def warning(text: str = "x", run_id: str | None = None, audience: str | None = None, kind: str = "warning") -> NewEvent:
    """An event of the given kind that carries a text."""
    params = {"revision": 1, "origin": "watch", "event": {"version": 3, "kind": kind, "timestamp": "t", "message": text}}
    return NewEvent("event", kind, run_id, audience, json.dumps(params).encode())


def output(text: str, run_id: str = "run-1", **others: Any) -> NewEvent:
    """A piece of an agent's output."""
    event = {
        "version": 3,
        "kind": "runner_output",
        "timestamp": text[:1],
        "stream": "combined",
        "payload": {"text": text},
        **others,
    }
    params = {"revision": 1, "run_id": run_id, "origin": "run", "event": event}
    return NewEvent("event", "runner_output", run_id, None, json.dumps(params).encode())


def contents(folder: Path) -> dict[str, bytes]:
    """Every file in the folder, by name."""
    return {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.is_file()}


def is_root() -> bool:
    return os.geteuid() == 0

"""An engine with fakes around it: a hub with a real log, a real record on disk, and a program that the test writes."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskStatus

from cueloop_daemon.core.model import ActiveRun, Snapshot
from cueloop_daemon.events import Filter, Hub, Journal, Place
from cueloop_daemon.runs.db import RunsPlace
from cueloop_daemon.runs.engine import Began, Engine
from cueloop_daemon.runs.face import Face
from cueloop_daemon.runs.journal import RunJournal
from cueloop_daemon.runs.lane import DbLane
from cueloop_daemon.runs.state import State
from cueloop_daemon.runs.surroundings import Living, Surroundings
from cueloop_daemon.runs.types import OwedRow, World
from cueloop_protocol.params import RunStartParams
from cueloop_protocol.roots import Caller
from decision_world import NOW as DECIDED_AT
from decision_world import snapshot
from events.hubs import FakeSink
from runs.fakes import NOW, FakeCarriers, FakeShim

ME = Caller("/home/me", None)


@dataclass
class FakeWorld:
    """What a test's program reaches: the run as it lives."""

    living: Living


Program = Callable[[State, RunJournal, FakeWorld], Awaitable[State]]


@dataclass
class Office:
    """A folder that outlives daemons, and the parts of one daemon on it. `start` begins a life, as often as wanted."""

    folder: Path
    program: Program
    carriers: FakeCarriers = field(default_factory=FakeCarriers)
    facts: Snapshot = field(default_factory=snapshot)
    connect: Any = None
    shown: list[ActiveRun | None] = field(default_factory=list)
    written: list[ActiveRun | None] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    owed: list[tuple[OwedRow, ...]] = field(default_factory=list)
    boot_id: str = "boot-1"
    history: int = 200
    ids: Iterator[int] = field(default_factory=lambda: count(1))
    epochs: Iterator[int] = field(default_factory=lambda: count(1))
    clock: datetime = DECIDED_AT

    @asynccontextmanager
    async def life(self, *, serve: bool = True) -> AsyncIterator[Life]:
        """A daemon; at the end of the block it leaves, as on SIGTERM."""
        hub = Hub(Journal(self._event_place(), lambda: 0.0), lambda audience: b"{}")
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                await tasks.start(hub.run)
                engine, living = Engine(self._around(hub)), anyio.CancelScope()

                async def run(*, task_status: TaskStatus[None]) -> None:
                    with living:
                        await engine.run(task_status=task_status)

                async with anyio.create_task_group() as running:
                    await running.start(run)
                    sink = FakeSink()
                    subscribed = await hub.subscribe(sink, Filter())
                    hub.start(subscribed.subscription)
                    if serve:
                        engine.serve()
                    yield Life(self, engine, hub, sink, living.cancel)
                    living.cancel()
                hub.stop()

    def as_after_a_kill(self, name: str) -> Office:
        """The same folder as another daemon finds it if this one is killed now; what outlives daemons is shared."""
        target = self.folder.parent / name
        target.mkdir()
        for entry in filter(Path.is_file, self.folder.iterdir()):
            shutil.copyfile(entry, target / entry.name)
        return replace(self, folder=target, shown=[], written=[], warnings=[])

    async def owe(self, rows: tuple[OwedRow, ...]) -> None:
        """What a daemon is told of accepted work."""
        self.owed.append(rows)

    def _around(self, hub: Hub) -> Surroundings:
        place = RunsPlace(str(self.folder / "runs.db"), lambda: None)
        if self.connect is not None:
            place = replace(place, connect=self.connect)

        async def program(state: State, journal: RunJournal, world: FakeWorld) -> State:
            while state.next != "over":
                state = await self.program(state, journal, world)
                await journal.checkpoint(state)
            return state

        async def worlds(living: Living) -> World:
            return FakeWorld(living)  # type: ignore[return-value]  # all that the test's program asks for

        async def look(caller: Caller) -> Snapshot:
            await anyio.lowlevel.checkpoint()
            return replace(self.facts, active_run=self.shown[-1] if self.shown else None)

        return Surroundings(
            lane=DbLane(place),
            hub=hub,
            carriers=self.carriers,
            face=Face(self.shown.append, self.written.append),
            program=program,  # type: ignore[arg-type]  # its world is the fake one
            worlds=worlds,
            ready=lambda: None,
            look=look,
            settle_config=lambda config, asked: config,
            revision=lambda: 1,
            now=lambda: self.clock,
            stamp=lambda: NOW,
            new_id=lambda: f"run-{next(self.ids)}",
            boot_id=self.boot_id,
            history=lambda: self.history,
            warn=self.warnings.append,
            changed=lambda: None,
            owed=self.owe,
        )

    def _event_place(self) -> Place:
        return Place(str(self.folder / "events.db"), lambda: None, "boot-1", lambda: f"e{next(self.epochs)}", 1 << 26)


@dataclass
class Life:
    """One daemon, and a subscriber of it from its beginning."""

    office: Office
    engine: Engine
    hub: Hub
    sink: FakeSink
    leave: Callable[[], None]
    """As on SIGTERM, before the block is over."""

    async def start(self, **asked: Any) -> Began:
        return await self.engine.start(RunStartParams.model_validate({"mode": "loop", **asked}), ME)

    async def at_work(self, shim: FakeShim) -> None:
        """Start a run, and wait until it has given its shim an order."""
        await self.start()
        while not shim.orders:
            await anyio.sleep(0)

    async def finished(self, runs: int = 1) -> None:
        """Wait until so many `run.finished` were told here."""
        await self.sink.until(lambda: self.told.count("run.finished") >= runs)

    async def until_told(self, text: str) -> None:
        await self.sink.until(lambda: text in self.told)

    @property
    def told(self) -> list[str]:
        """Messages of events, and the methods of other notifications, in order."""
        return [
            message["params"]["event"]["message"] if message["method"] == "event" else message["method"]
            for message in self.sink.messages
        ]

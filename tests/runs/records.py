"""One run's record as the tests of the journal see it: a new life at any time, and what was told, in order."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Protocol

from cueloop_daemon.runs import queries
from cueloop_daemon.runs.batches import held, load
from cueloop_daemon.runs.journal import RunJournal
from cueloop_daemon.runs.lane import DbLane, RunStore
from cueloop_daemon.runs.queries import NewRun, StoredRequest
from cueloop_daemon.runs.records import Out
from cueloop_daemon.runs.store import Point
from cueloop_protocol.documents.config import Config
from cueloop_protocol.documents.envelope import Warned
from cueloop_protocol.example_config import RESOLVE_DOCUMENT
from cueloop_protocol.params import RunStartParams
from runs.fakes import NOW, RUN, Killed, MemoryStore


class KillAt:
    """Ends the life at the n-th place at which one can end (from 0), or at the one that is named; remembers what it passed."""

    def __init__(self, number: int | None = None, *, key: str = "", point: Point | None = None) -> None:
        self.number = number
        self.named = (key, point)
        self.passed: list[tuple[str, Point]] = []

    def __call__(self, key: str, point: Point) -> None:
        self.passed.append((key, point))
        if (key, point) == self.named or (self.number is not None and len(self.passed) > self.number):
            raise Killed(f"{key} {point}")


class Record(Protocol):
    """What outlives daemons."""

    async def journal(self, kill: KillAt | None = None) -> RunJournal:
        """A new life."""
        ...

    async def told(self) -> list[str]:
        """The messages of all events that were said, in order, and the methods of other notifications."""
        ...


def words(out: list[Out]) -> list[str]:
    said: list[str] = []
    for one in out:
        params = json.loads(one.params)
        said.append(params["event"]["message"] if one.method == "event" else one.method)
    return said


@dataclass
class MemoryRecord:
    store: MemoryStore = field(default_factory=MemoryStore)

    async def journal(self, kill: KillAt | None = None) -> RunJournal:
        return self.store.journal(probe=kill)

    async def told(self) -> list[str]:
        return words([*self.store.out, *([self.store.over.finished] if self.store.over else [])])


def new_run(run_id: str = RUN, **changes: Any) -> NewRun:
    asked = RunStartParams(mode="one", env={"SECRET": "hush"})
    request = StoredRequest(
        params=asked, home="/home/me", config_home=None, config=Config.model_validate(RESOLVE_DOCUMENT["config"])
    )
    given: dict[str, Any] = {
        "run_id": run_id,
        "request": request,
        "key": None,
        "digest": "d",
        "boot_id": "boot-1",
        "started_at": NOW,
        "cursor": "e:0",
        "view": b"{}",
    }
    return NewRun(**{**given, **changes})


@dataclass
class DiskRecord:
    lane: DbLane
    is_begun: bool = False

    @classmethod
    async def begun(cls, lane: DbLane) -> DiskRecord:
        await lane.once(lambda db: queries.insert(db, new_run()))
        return cls(lane)

    async def journal(self, kill: KillAt | None = None) -> RunJournal:
        if self.is_begun:
            await self.lane.once(lambda db: queries.begin_life(db, RUN))
        self.is_begun = True
        loaded = await self.lane.read(lambda db: load(db, RUN))
        store = RunStore(self.lane, RUN)
        if kill is None:
            return RunJournal(store, loaded, lambda: NOW)
        return RunJournal(store, loaded, lambda: NOW, probe=kill)

    async def told(self) -> list[str]:
        rows = await self.lane.read(lambda db: held(db, 1000))
        assert [row.ordinal for row in rows] == list(range(1, len(rows) + 1)), "ordinals have no holes"
        return words([row.out for row in rows])


def warned(text: str) -> Warned:
    return Warned(timestamp=NOW, message=text)

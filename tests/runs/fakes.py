"""Fakes of what a run reaches: its record in memory, its shim, its folder, files, git and people. Each can be asked what was done.

What survives a daemon (record, shim, files) is an object that several lives share; a life is a journal and a world on top of it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import anyio

from cueloop_daemon.core.model import ShimProcess
from cueloop_daemon.runs.carrier import Carrier, Carriers
from cueloop_daemon.runs.journal import RunJournal
from cueloop_daemon.runs.records import Batch, Conversation, Loaded, Out, Over, Record
from cueloop_daemon.runs.state import STATE, State
from cueloop_daemon.runs.store import Probe, Unwritable
from cueloop_daemon.runs.types import (
    Exited,
    Grown,
    Link,
    LockHeld,
    LockMade,
    NotStarted,
    Order,
    RunFolder,
    ShimGone,
    Started,
)
from cueloop_daemon.store.not_writable import NotWritable

NOW = "2026-11-30T12:00:00.000000000Z"
RUN = "r-1"


class Killed(BaseException):
    """The daemon dies here: nothing of it goes on."""


@dataclass
class MemoryStore:
    """A run's record in memory, with the laws of the real one; `loaded()` is what the next life finds."""

    run_id: str = RUN
    state: bytes = STATE.dump_json(State())
    next_order: int = 1
    records: dict[int, Record] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)
    out: list[Out] = field(default_factory=list)
    conversations: list[Conversation] = field(default_factory=list)
    over: Over | None = None
    commits: int = 0
    lives: int = 0
    refusals: int = 0
    """How many of the next commits the medium refuses."""

    async def commit(self, batch: Batch) -> None:
        await anyio.lowlevel.checkpoint()
        if self.refusals:
            self.refusals -= 1
            raise Unwritable("the disk is full")
        assert self.over is None, "nothing is written after the end"
        self.commits += 1
        if batch.checkpoint is not None:
            self.state, self.next_order = batch.checkpoint.state, batch.checkpoint.next_order
            self.records.clear()
            self.told.clear()
        for record in batch.records:
            assert record.idx not in self.records
            self.records[record.idx] = record
        for idx, made in batch.results:
            assert self.records[idx].result is None
            self.records[idx] = self.records[idx]._replace(result=made)
        self.out.extend(batch.out)
        self.conversations.extend(batch.conversations)
        if batch.restart is not None:
            self.told |= {record.key for record in self.records.values() if record.kind == "E"}
            self.records.clear()
            self.next_order = batch.restart
        self.over = batch.over

    def loaded(self, **changes: Any) -> Loaded:
        """What a life that begins now finds."""
        records = [self.records[idx] for idx in sorted(self.records)]
        assert [record.idx for record in records] == list(range(len(records))), "the record has no holes"
        given: dict[str, Any] = {
            "run_id": self.run_id,
            "state": self.state,
            "next_order": self.next_order,
            "records": records,
            "told": frozenset(self.told),
            "is_first_life": self.lives == 0,
        }
        return Loaded(**{**given, **changes})

    def journal(self, *, probe: Probe | None = None, **changes: Any) -> RunJournal:
        """A journal of a new life."""
        loaded = self.loaded(**changes)
        self.lives += 1
        if probe is None:
            return RunJournal(self, loaded, lambda: NOW, retry=0)
        return RunJournal(self, loaded, lambda: NOW, probe=probe, retry=0)


@dataclass
class Script:
    """What a child does: its output, and how it ends. `None` for the end: it runs until it is signalled."""

    out: bytes = b""
    err: bytes = b""
    end: Exited | None = field(default_factory=lambda: Exited(0, None, "self", 0, 0, 0))


@dataclass
class FakeShim:
    """The shim, which outlives daemons. `play` says what a child does; `started` counts each number once."""

    play: Callable[[Order], Script | NotStarted] = lambda order: Script()
    held: LockHeld | None = None
    is_gone: bool = False
    lock: LockMade | None = None
    orders: dict[int, Order] = field(default_factory=dict)
    scripts: dict[int, Script | NotStarted] = field(default_factory=dict)
    barred: set[int] = field(default_factory=set)
    ended: dict[int, Exited] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    changed: anyio.Event = field(default_factory=anyio.Event)

    def tell(self) -> None:
        changed, self.changed = self.changed, anyio.Event()
        changed.set()


class FakeLink:
    """A daemon's end of the connection to a `FakeShim`."""

    def __init__(self, shim: FakeShim) -> None:
        self._shim = shim

    async def call(self, text: str) -> None:
        await anyio.lowlevel.checkpoint()
        if self._shim.is_gone:
            raise ShimGone
        self._shim.calls.append(text)

    async def lock(self, number: int, label: str, command: str, started_at: str) -> LockMade | LockHeld:
        await self.call(f"lock {number}")
        if self._shim.held is not None:
            return self._shim.held
        self._shim.lock = self._shim.lock or LockMade(1, number, f"label: {label}\ncommand: {command}\n".encode())
        return self._shim.lock

    async def unlock(self, number: int) -> None:
        await self.call(f"unlock {number}")
        self._shim.lock = None

    async def start(self, order: Order) -> Started | NotStarted:
        await self.call(f"start {order.number}")
        known = self._shim.orders.get(order.number)
        assert known is None or known.token == order.token, "one number names one order"
        if known is None:
            self._shim.orders[order.number] = order
            barred = order.number in self._shim.barred
            self._shim.scripts[order.number] = NotStarted("barred", 0) if barred else self._shim.play(order)
            script = self._shim.scripts[order.number]
            if isinstance(script, Script) and script.end is not None:
                self._shim.ended[order.number] = script.end
        script = self._shim.scripts[order.number]
        return script if isinstance(script, NotStarted) else Started(1000 + order.number, "1")

    def follow(self, number: int) -> AsyncIterator[Grown | Exited]:
        return FakeNews(self, self._shim, number)

    async def signal(self, number: int, grace: float) -> None:
        await self.call(f"signal {number}")
        if number not in self._shim.orders:
            self._shim.barred.add(number)
        self._shim.ended.setdefault(number, Exited(None, 2, "signal", 0, 0, 0))
        self._shim.tell()

    async def end_child(self, grace: float) -> None:
        for number in set(self._shim.orders) - set(self._shim.ended):
            await self.signal(number, grace)

    async def limits(self, number: int, *, leave_within: float) -> None:
        await self.call(f"limits {number}")

    async def acknowledge(self, number: int) -> None:
        await self.call(f"acknowledge {number}")


class FakeNews:
    """How a child grows (all at once) and ends."""

    def __init__(self, link: FakeLink, shim: FakeShim, number: int) -> None:
        self._link, self._shim, self._number = link, shim, number
        self._told = 0

    def __aiter__(self) -> FakeNews:
        return self

    async def __anext__(self) -> Grown | Exited:
        if self._told == 0:
            await self._link.call(f"follow {self._number}")
        if self._told == 2:
            raise StopAsyncIteration
        script = self._shim.scripts[self._number]
        assert isinstance(script, Script)
        if self._told == 0:
            self._told = 1
            return Grown(len(script.out), len(script.err))
        while self._number not in self._shim.ended:
            await self._shim.changed.wait()
            if self._shim.is_gone:
                raise ShimGone
        self._told = 2
        return replace(self._shim.ended[self._number], out=len(script.out), err=len(script.err))


@dataclass
class FakeFolder:
    """A run's folder in memory."""

    shim: FakeShim
    prompts: dict[int, str] = field(default_factory=dict)
    stdins: dict[int, bytes] = field(default_factory=dict)

    def write_prompt(self, number: int, text: str) -> str:
        self.prompts.setdefault(number, text)
        return f"/runs/{RUN}/{number}.prompt"

    def write_stdin(self, number: int, data: bytes) -> str:
        self.stdins.setdefault(number, data)
        return f"/runs/{RUN}/{number}.stdin"

    def read(self, number: int, stream: Literal["out", "err"], offset: int, limit: int) -> tuple[int, bytes]:
        script = self.shim.scripts.get(number)
        whole = b"" if not isinstance(script, Script) else script.out if stream == "out" else script.err
        return offset, whole[offset : offset + limit]


def later(make: Callable[[], Any]) -> Callable[[], Awaitable[Any]]:
    """A plain function as one that can be awaited."""

    async def call() -> Any:
        return make()

    return call


def ending(state: Mapping[str, Any]) -> State:
    """A state of a run that is over."""
    return State.model_validate({"next": "over", "ending": {"outcome": "completed", "exit_code": 0}, **state})


@dataclass(eq=False)
class FakeCarrier:
    """A connected shim. `lose` and `dismiss` are what happens to it."""

    fake: FakeShim
    carriers: FakeCarriers
    run_id: str
    gone: anyio.Event = field(default_factory=anyio.Event)
    told: anyio.Event = field(default_factory=anyio.Event)

    @property
    def link(self) -> FakeLink:
        return FakeLink(self.fake)

    @property
    def folder(self) -> FakeFolder:
        return FakeFolder(self.fake)

    @property
    def shim(self) -> ShimProcess:
        return ShimProcess(4242, "1", "boot-1")

    def lose(self) -> None:
        self.fake.is_gone = True
        self.fake.tell()
        self.gone.set()

    async def quiet(self) -> None:
        await anyio.lowlevel.checkpoint()

    async def lost(self) -> None:
        await self.gone.wait()

    async def dismissed(self) -> None:
        await self.told.wait()

    async def abort(self) -> None:
        self.carriers.calls.append(f"abort {self.run_id}")

    async def end(self) -> None:
        self.carriers.calls.append(f"end {self.run_id}")


@dataclass(eq=False)
class FakeCarriers:
    """All shims, which outlive daemons. `unreachable` is set while they do not answer."""

    shims: dict[str, FakeShim] = field(default_factory=dict)
    envs: dict[str, Mapping[str, str]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    carried: dict[str, FakeCarrier] = field(default_factory=dict)
    left: tuple[str, ...] = ()
    answers: bool = True
    full: bool = False
    strangers: tuple[str, ...] = ()

    async def prepare(self, run_id: str, env: Mapping[str, str]) -> None:
        await anyio.lowlevel.checkpoint()
        if self.full:
            raise NotWritable("The folder cannot be made: no space left on device.", "Make room.", path="/runs", code="unknown")
        self.envs[run_id] = env

    async def discard(self, run_id: str) -> None:
        self.envs.pop(run_id, None)
        self.calls.append(f"discard {run_id}")

    def environment(self, run_id: str) -> Mapping[str, str]:
        if run_id not in self.envs:
            raise ValueError("the environment is not there any more.")
        return self.envs[run_id]

    async def carry(self, run_id: str, boot_id: str, generation: int) -> FakeCarrier:
        self.calls.append(f"carry {run_id}")
        if not self.answers:
            await anyio.sleep_forever()
        shim = self.shims.setdefault(run_id, FakeShim())
        if shim.is_gone:
            raise ShimGone
        self.carried[run_id] = FakeCarrier(shim, self, run_id)
        return self.carried[run_id]

    async def bury(self, run_id: str, generation: int) -> tuple[str, ...]:
        self.calls.append(f"bury {run_id}")
        return self.left

    async def unknown(self, known: frozenset[str], generation: int) -> tuple[str, ...]:
        self.calls.append(f"unknown {sorted(known)}")
        return self.strangers

    def output(self, run_id: str, number: int, stream: Literal["out", "err"], offset: int, limit: int) -> tuple[int, bytes]:
        return FakeFolder(self.shims[run_id]).read(number, stream, offset, limit)

    def sizes(self, run_id: str, number: int) -> tuple[int, int]:
        script = self.shims[run_id].scripts.get(number) if run_id in self.shims else None
        return (len(script.out), len(script.err)) if isinstance(script, Script) else (0, 0)


_conforms: tuple[type[Link], type[RunFolder], type[Carrier], type[Carriers]] = (FakeLink, FakeFolder, FakeCarrier, FakeCarriers)

"""The journal of one run: what a program does goes through here, is written down before or after it, and is never done twice.

The laws: entries of a scope have a fixed order; what is on record is answered from there; another key than the recorded one
raises `Diverged` before anything is done. Intents are committed before their act begins. Everything else rides with the next
commit, which `flush` makes at the latest: a killed daemon then repeats notes, converging acts, and asks steps what became of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import anyio
import anyio.lowlevel
from pydantic import TypeAdapter

from cueloop_daemon.runs.ending import over_with, told
from cueloop_daemon.runs.pending import Pending
from cueloop_daemon.runs.records import Batch, Checkpoint, Conversation, Kind, Loaded, Record
from cueloop_daemon.runs.state import STATE, ScopeName, State
from cueloop_daemon.runs.store import Point as Point
from cueloop_daemon.runs.store import Probe as Probe
from cueloop_daemon.runs.store import Store, Unrecordable, Unwritable, no_probe
from cueloop_daemon.runs.types import Diverged, RunCancelled
from cueloop_protocol.documents.envelope import Event

RIDING: frozenset[tuple[ScopeName, ScopeName]] = frozenset(
    {("open", "begin"), ("begin", "phase"), ("phase", "finish"), ("finish", "close")}
)
"""Where the end of a scope rides with the first commit of the next one: what is done until then may be repeated, and no order is
acknowledged (`begin` does that, but before the first task there was none). A life that is killed in between leaves the first of the
two to be read again.
"""

T = TypeVar("T")
I = TypeVar("I")  # noqa: E741  (an intent)


class RunJournal:
    """Implements `types.Journal`. One program at a time; all from the event loop's thread.

    `trouble(reason)` is called each time the medium refuses a commit; it is tried again every `retry` seconds, while the run
    waits. `committed` is called after each commit, `dirty` when something waits for the next one.
    """

    def __init__(
        self, store: Store, loaded: Loaded, stamp: Callable[[], str], *, probe: Probe = no_probe, retry: float = 5.0
    ) -> None:
        """`stamp` gives the wall clock's time, RFC 3339."""
        self.run_id = loaded.run_id
        self.state: State = STATE.validate_json(loaded.state)
        self.trouble: Callable[[str], None] = lambda reason: None
        self.committed: Callable[[], None] = lambda: None
        self.dirty: Callable[[], None] = lambda: None
        self._store = store
        self._stamp = stamp
        self._probe = probe
        self._retry = retry
        self._records = list(loaded.records)
        self._told = set(loaded.told)
        """Keys of events that a reading of this scope which was given up has said."""
        self._said: set[str] = set()
        """Keys of events that this life has said in this scope."""
        self._idx = 0
        self._base = loaded.next_order
        self._keys = {record.key for record in self._records}
        self._again = not loaded.is_first_life
        self._stop_wanted = loaded.stop_wanted
        self._cancelling = anyio.Event()
        if loaded.cancelled:
            self._cancelling.set()
        self._pending = Pending()
        self._lane = anyio.Lock()
        self._is_lost = False
        self._waits: set[anyio.CancelScope] = set()
        self._act_scope: anyio.CancelScope | None = None

    @property
    def cancelled(self) -> bool:
        """Whether the run is being cancelled."""
        return self._cancelling.is_set()

    @property
    def stop_wanted(self) -> bool:
        """Whether the run was asked to stop after its current task."""
        return self._stop_wanted

    def cancel(self) -> None:
        """End every wait with RunCancelled, now and from now on. The wish is on record already: see `RunsDb.cancel`."""
        self._cancelling.set()
        for scope in list(self._waits):
            scope.cancel()

    async def until_cancelled(self) -> None:
        """Return when the run is being cancelled."""
        await self._cancelling.wait()

    def ask_stop(self) -> None:
        """Ask the program to stop after its current task."""
        self._stop_wanted = True

    async def note(self, key: str, make: Callable[[], Awaitable[T]], codec: TypeAdapter[T]) -> T:
        """See `types.Journal`."""
        record = self._on_record(key, "N")
        if record is not None:
            return self._passed(record, codec)
        self._probe(key, "before")
        return self._keep(key, "N", codec.dump_json(await make()), codec)

    async def converge(self, key: str, act: Callable[[bool], Awaitable[T]], codec: TypeAdapter[T]) -> T:
        """See `types.Journal`. `again` holds for all entries up to the first intent that this life has committed."""
        record = self._on_record(key, "V")
        if record is not None:
            return self._passed(record, codec)
        self._probe(key, "before")
        with self._acting():
            result = await act(self._again)
        self._probe(key, "acted")
        return self._keep(key, "V", codec.dump_json(result), codec)

    async def step(
        self, key: str, intent: I, act: Callable[[I, bool], Awaitable[T]], intent_codec: TypeAdapter[I], codec: TypeAdapter[T]
    ) -> T:
        """See `types.Journal`. In a later life the intent that was recorded counts, not the one given now.

        What `act` raises comes out and is not recorded: the program may end the scope with it, or go on behind it.
        """
        record = self._on_record(key, "S")
        if record is not None and record.result is not None:
            return self._passed(record, codec)
        again = record is not None
        meant = intent_codec.dump_json(intent) if record is None or record.intent is None else record.intent
        if record is None:
            self._probe(key, "before")
            self._pending.add(Record(self._idx, key, "S", meant, None))
            await self.flush()
            self._again = False
            self._probe(key, "intent")
        try:
            with self._acting():
                result = await act(intent_codec.validate_json(meant), again)
        except Exception:
            self._keys.add(key)
            self._idx += 1  # left without a result: a scope that ends here forgets it, a life that begins here asks the act again
            raise
        self._probe(key, "acted")
        made = codec.dump_json(result)
        self._pending.result(self._idx, made)
        self._advance(key)
        return codec.validate_json(made)

    async def emit(self, key: str, event: Event) -> None:
        """See `types.Journal`. The finished bytes are kept: what a later life would say instead does not matter."""
        if key in self._told or self._on_record(key, "E") is not None:
            self._idx += key not in self._told
            return
        self._probe(key, "before")
        self._pending.add(Record(self._idx, key, "E", None, None))
        self._pending.say(told(self.run_id, event))
        self._said.add(key)
        self._advance(key)

    def say(self, event: Event) -> None:
        """See `types.Journal`."""
        self._pending.say(told(self.run_id, event))
        self.dirty()

    def left_invocation(self) -> bytes | None:
        """The intent of the agent's invocation that an earlier life began, if that is the last thing on record and has no result."""
        last = self._records[-1] if self._records else None
        is_open = last is not None and last.kind == "S" and last.result is None and last.key.endswith("/invoke")
        return last.intent if last is not None and is_open else None

    def keep_conversation(self, conversation: Conversation) -> None:
        """Remember one of the agents' own sessions; rides with the next commit, so it is there before the next intent acts."""
        self._pending.conversations.append(conversation)
        self.dirty()

    def show(self, view: bytes) -> None:
        """Keep what `active_run` says; rides with the next commit."""
        self._pending.view = view

    async def heed(self) -> None:
        """See `types.Journal`."""
        await anyio.lowlevel.checkpoint()
        if self.cancelled and self._idx >= len(self._records):
            raise RunCancelled

    async def wait(self, wanted: Awaitable[T]) -> T:
        """See `types.Journal`. A daemon that leaves ends it as any task is ended; nothing is recorded then."""
        if self._act_scope is None:
            await self.flush()
        is_live = self._act_scope is not None or self._idx >= len(self._records)
        scope = anyio.CancelScope()
        if is_live:
            self._waits.add(scope)
            if self.cancelled:
                scope.cancel()
        try:
            with self._unshielded(), scope:
                return await wanted
        finally:
            self._waits.discard(scope)
        raise RunCancelled

    async def checkpoint(self, state: object) -> None:
        """See `types.Journal`. With a state whose `next` is `over` the run is over when this returns."""
        if not isinstance(state, State):
            raise TypeError("a checkpoint takes a State")
        if self._idx < len(self._records):
            raise Diverged(f"the scope ends before {self._records[self._idx].key!r}, which is on record")
        await self._end_scope(state, self._base + self._idx, rides=(self.state.next, state.next) in RIDING)

    async def abandon(self, state: State) -> None:
        """End the scope where it stands, whatever is on record beyond: the program cannot go on, and `state` is where it ends."""
        await self._end_scope(state, self._base + max(len(self._records), self._idx) + 1)

    async def _end_scope(self, state: State, next_order: int, *, rides: bool = False) -> None:
        key = f"checkpoint/{self.state.next}"
        self._probe(key, "before")
        self._pending.end_scope(Checkpoint(state.next, STATE.dump_json(state), next_order))
        self._pending.over = over_with(self.run_id, state, self._stamp()) if state.next == "over" else None
        if rides:
            self.dirty()  # and `again` stays: an earlier life may have come further without a trace
        else:
            await self.flush()
            self._again = False
        self.state = state
        self._begin(next_order)
        self._told.clear()
        self._probe(key, "result")

    async def restart(self) -> None:
        """Begin the scope anew after `Diverged`: its notes and acts are forgotten, what was said stays said.

        Only for scopes of converging acts. Orders get new numbers, so that none is taken for one that was given before.
        """
        told = {record.key for record in self._records if record.kind == "E"} | self._told | self._said
        next_order = self._base + max(len(self._records), self._idx) + 1
        self._pending.restart = next_order
        await self.flush()
        self._told = told
        self._begin(next_order)
        self._again = True

    def order_number(self) -> int:
        """See `types.Journal`: the number of the order that the entry under way gives; each entry gives at most one.

        It follows from the entry's place, so it is the same in each life, whether or not that life had to ask for it.
        """
        return self._base + self._idx

    async def flush(self) -> None:
        """Commit what waits, if anything does. Returns when it is on the medium.

        While the medium takes nothing the run waits here. Unrecordable: the record is lost, or the run is cancelled meanwhile.
        """
        async with self._lane:
            if self._is_lost:
                raise Unrecordable("the run's record could not be written")
            batch = self._pending.take()
            if not batch:
                return
            self._is_lost = True  # until it is committed: nothing may follow what was not
            while not await self._is_committed(batch):
                if self.cancelled:
                    raise Unrecordable("the run was cancelled while its record could not be written")
                with anyio.move_on_after(self._retry):
                    await self._cancelling.wait()
            self._is_lost = False
        self.committed()

    async def _is_committed(self, batch: Batch) -> bool:
        try:
            with anyio.CancelScope(shield=True):
                await self._store.commit(batch)
        except Unwritable as exc:
            self.trouble(str(exc))
            return False
        return True

    def _on_record(self, key: str, kind: Kind) -> Record | None:
        if self._idx >= len(self._records):
            if key in self._keys:
                raise ValueError(f"the key {key!r} is used twice in one scope")
            return None
        record = self._records[self._idx]
        if (record.key, record.kind) != (key, kind):
            raise Diverged(f"{key!r} ({kind}) is asked for where {record.key!r} ({record.kind}) is on record")
        return record

    def _passed(self, record: Record, codec: TypeAdapter[T]) -> T:
        if record.result is None:
            raise Diverged(f"{record.key!r} has no result on record")
        self._idx += 1
        return codec.validate_json(record.result)

    def _keep(self, key: str, kind: Kind, made: bytes, codec: TypeAdapter[T]) -> T:
        self._pending.add(Record(self._idx, key, kind, None, made))
        self._advance(key)
        return codec.validate_json(made)  # not the value itself: this life sees what a later one would

    def _advance(self, key: str) -> None:
        self._keys.add(key)
        self._idx += 1
        self.dirty()
        self._probe(key, "result")

    def _begin(self, next_order: int) -> None:
        self._records.clear()
        self._said.clear()
        self._keys.clear()
        self._idx = 0
        self._base = next_order

    @contextmanager
    def _acting(self) -> Iterator[None]:
        """An act is finished once it was begun; only a `wait` inside of it can be left."""
        with anyio.CancelScope(shield=True) as scope:
            self._act_scope = scope
            try:
                yield
            finally:
                self._act_scope = None

    @contextmanager
    def _unshielded(self) -> Iterator[None]:
        scope = self._act_scope
        if scope is None:
            yield
            return
        scope.shield = False
        try:
            yield
        finally:
            scope.shield = True

"""The run engine: one run at a time, whose record is on disk before anybody hears of it, and which outlives this daemon."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TypeVar

import anyio
from anyio.abc import TaskStatus

from cueloop_daemon.core.model import ActiveRun, Snapshot
from cueloop_daemon.runs import queries
from cueloop_daemon.runs.carrying import Carrying
from cueloop_daemon.runs.history import History
from cueloop_daemon.runs.queries import AlreadyOpen, NewRun, RunRow, StoredRequest
from cueloop_daemon.runs.questions import Answered
from cueloop_daemon.runs.starting import digest_of, may_start
from cueloop_daemon.runs.surroundings import Surroundings
from cueloop_daemon.store.not_writable import NotWritable
from cueloop_daemon.store.sqlite import DbError, DbTooNew
from cueloop_protocol import codes
from cueloop_protocol.documents.summary import Summary
from cueloop_protocol.params import RunStartParams
from cueloop_protocol.roots import Caller
from cueloop_protocol.run_results import RunRecord
from cueloop_protocol.shapes import Question
from cueloop_protocol.values import dataclass

logger = logging.getLogger(__name__)
T = TypeVar("T")

SETTLING = (0.1, 0.1, 0.15)
"""Seconds between looks at a session file that was caught half-written, before it is judged."""


@dataclass(frozen=True, slots=True)
class Began:
    """A run that was started; `repeated` if its idempotency key had started it before. `cursor` is before its first event."""

    run_id: str
    cursor: str
    repeated: bool


class Engine:
    """One per daemon. `run` must be running; all methods are called from its event loop, and raise RpcError."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._carrying = Carrying(around)
        self.history = History(around.lane, around.carriers)
        self._starting = anyio.Lock()

    @property
    def questions(self) -> tuple[Question, ...]:
        """Those that stand, as they were told."""
        return self._carrying.questions

    @property
    def active_id(self) -> str | None:
        """The run that is active."""
        return None if self._carrying.open is None else self._carrying.open.run_id

    @property
    def outcomes(self) -> Mapping[str, int]:
        """How many runs have ended under this daemon, by outcome."""
        return self._carrying.outcomes

    @property
    def adopted(self) -> int:
        """How many runs this daemon has taken over from another."""
        return self._carrying.adopted

    @property
    def is_used(self) -> bool:
        """Whether a run or a question keeps the daemon from leaving for want of callers."""
        return self.active_id is not None

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Read the record, say that the engine is ready, and carry runs until cancelled; they then wait for the next daemon."""
        await self._carrying.run(task_status=task_status)

    def serve(self) -> None:
        """The socket is served: go on with the run that there is, and see to what is left of others."""
        self._carrying.serving.set()

    def leave(self) -> None:
        """The daemon begins to leave as it should: however often that happens to one run, the next daemon goes on with it."""
        self._carrying.leave()

    async def start(self, asked: RunStartParams, caller: Caller) -> Began:
        """Start a run; its record is on the medium when this returns. Of two that come together one is first."""
        async with self._starting:
            await self._ensure_record()
            if (repeated := await self._known(asked)) is not None:
                return repeated
            if self.active_id is not None:
                raise codes.run_active(self.active_id)
            return await self._begin(asked, caller, await self._settled_facts(caller))

    async def stop(self, run_id: str | None) -> str:
        """Let the active run end after its current task; its id."""
        row = self._active(run_id)
        try:
            await self._around.lane.once(lambda db: queries.wish(db, row.run_id, "stop", self._around.stamp()))
        except DbError as exc:
            raise unavailable(exc) from exc
        self._around.face.wish(stopping=True)
        if self._carrying.life is not None:
            self._carrying.life.journal.ask_stop()
        return row.run_id

    async def cancel(self, run_id: str | None) -> tuple[str, Summary]:
        """End the active run now; returns when it is told to be over and nothing of it is left. One that is over stays as it is."""
        if run_id is not None and run_id != self.active_id:
            done = await self.find(run_id)
            if done.summary is not None:
                await self._carrying.seen_off(run_id)
                return run_id, Summary.model_validate_json(done.summary)
        row = self._active(run_id)
        self._around.face.wish(cancelling=True)
        with suppress(DbError):  # it is cancelled even where that cannot be written down
            await self._around.lane.last_words(lambda db: queries.wish(db, row.run_id, "cancel", self._around.stamp()))
        summary = await self._carrying.cancelled(row.run_id)
        if summary is None:
            raise codes.shutting_down()
        return row.run_id, summary

    async def answer(self, run_id: str, question_id: str, choice: str, text: str | None) -> Answered:
        """Settle a question; the first answer counts, and is given to whoever comes later."""
        await self._ensure_record()
        question = next((one for one in self.questions if one.question_id == question_id), None)
        if question is not None:
            _check_choice(question, choice, text)
        try:
            found = await self._carrying.desk.answer(run_id, question_id, choice, text)
        except DbError as exc:
            raise unavailable(exc) from exc
        if found is None:
            await self.find(run_id)
            raise codes.conflict(f"Run {run_id} asks no question {question_id[:100]!r}.")
        return found

    async def find(self, run_id: str) -> RunRow:
        """One run, as its record has it."""
        await self._ensure_record()
        try:
            found = await self._around.lane.read(lambda db: queries.get(db, run_id))
        except DbError as exc:
            raise unavailable(exc) from exc
        if found is None:
            raise codes.no_such_run(run_id)
        return found

    async def look(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """What `query` finds in the record of runs. Raises DbError."""
        return await self._around.lane.read(query)

    async def record(self, row: RunRow) -> RunRecord:
        """One run as it is told."""
        return await self.history.record(row, self._around.face.run, self.questions)

    def state_of(self, run_id: str) -> str:
        """What the run is doing; one that ended just now was stopping."""
        run = self._around.face.run
        return run.state if run is not None and run.run_id == run_id else "stopping"

    async def _known(self, asked: RunStartParams) -> Began | None:
        key = asked.idempotency_key
        if key is None:
            return None
        row = await self._around.lane.read(lambda db: queries.by_key(db, key))
        if row is None:
            return None
        if row.digest != digest_of(asked):
            raise codes.conflict(
                "This idempotency key was used for another request.", detail=f"It started run {row.run_id}. Use a new key."
            )
        return Began(row.run_id, row.cursor, repeated=True)

    async def _settled_facts(self, caller: Caller) -> Snapshot:
        """The repository; a session file that is half-written gets the time that its writer needs."""
        facts = await self._around.look(caller)
        for pause in SETTLING:
            if not facts.settling:
                break
            await anyio.sleep(pause)
            facts = await self._around.look(caller)
        return facts

    async def _begin(self, asked: RunStartParams, caller: Caller, facts: Snapshot) -> Began:
        around = self._around
        may = may_start(facts, asked, around.now())
        config = around.settle_config(may.config, asked)
        active = ActiveRun(around.new_id(), asked.mode, asked.task_id, None, "starting", around.stamp(), may.decision)
        run = NewRun(
            run_id=active.run_id,
            request=StoredRequest(params=asked, home=caller.home, config_home=caller.config_home, config=config),
            key=asked.idempotency_key,
            digest=digest_of(asked),
            boot_id=around.boot_id,
            started_at=active.started_at,
            cursor=str(around.hub.cursor),
            view=around.face.view_of(active),
        )
        try:
            await around.carriers.prepare(run.run_id, asked.env)
        except NotWritable as exc:
            raise codes.not_writable(exc.message, exc.remedy, full=exc.code != "permission_denied") from exc
        try:
            row = await around.lane.once(lambda db: queries.insert(db, run))
        except (AlreadyOpen, DbError) as exc:
            await around.carriers.discard(run.run_id)
            raise codes.run_active(str(exc)) if isinstance(exc, AlreadyOpen) else unavailable(exc) from exc
        self._carrying.begin(row, active)
        return Began(run.run_id, run.cursor, repeated=False)

    async def _ensure_record(self) -> None:
        try:
            await self._carrying.open_record()
        except DbError as exc:
            raise unavailable(exc) from exc

    def _active(self, run_id: str | None) -> RunRow:
        row = self._carrying.open
        if row is None or (run_id is not None and row.run_id != run_id):
            raise codes.no_such_run(run_id) if run_id is not None else codes.RpcError(codes.NO_SUCH_RUN, "No run is active.")
        return row


def unavailable(exc: DbError) -> codes.RpcError:
    """The record of runs cannot be used, as an answer."""
    if isinstance(exc, DbTooNew):
        return codes.version_mismatch(
            f"The record of runs cannot be used: {exc}.", {}, "Run `cueloop daemon restart` with the newer cueloop."
        )
    return codes.not_writable(
        f"The record of runs cannot be used: {exc}.", "Make room or give access, then try again.", full=True
    )


def _check_choice(question: Question, choice: str, text: str | None) -> None:
    found = next((one for one in question.choices if one.choice == choice), None)
    if found is None:
        allowed = ", ".join(one.choice for one in question.choices)
        raise codes.invalid_params([{"path": "choice", "message": f"must be one of {allowed}"}])
    if text is not None and not found.takes_text:
        raise codes.invalid_params([{"path": "text", "message": f"the choice {choice} takes no text"}])

"""The run that is open, carried: begun, gone on with after a crash, seen off. What the engine does when nobody asks."""

from __future__ import annotations

import logging
from contextlib import suppress

import anyio
from anyio.abc import TaskGroup, TaskStatus
from pydantic_core import from_json

from cueloop_daemon.core.model import ActiveRun
from cueloop_daemon.events.hub import HubClosed
from cueloop_daemon.events.model import Mark, NewEvent
from cueloop_daemon.runs import queries
from cueloop_daemon.runs.active import view_from
from cueloop_daemon.runs.batches import end_open, load, speakers
from cueloop_daemon.runs.carrier import Carrier
from cueloop_daemon.runs.ending import failure, over, summary_of
from cueloop_daemon.runs.host import Host
from cueloop_daemon.runs.journal import RunJournal
from cueloop_daemon.runs.kept import owed_rows
from cueloop_daemon.runs.lane import RunStore
from cueloop_daemon.runs.life import Life
from cueloop_daemon.runs.outbox import STATE, Outbox
from cueloop_daemon.runs.pruning import prune
from cueloop_daemon.runs.queries import RunRow
from cueloop_daemon.runs.questions import QuestionDesk
from cueloop_daemon.runs.records import Held, Loaded, Over
from cueloop_daemon.runs.state import STATE as STATE_CODEC
from cueloop_daemon.runs.state import State
from cueloop_daemon.runs.surroundings import Living, Surroundings
from cueloop_daemon.runs.types import RunIdentity, World
from cueloop_daemon.store.sqlite import DbError
from cueloop_protocol.documents.summary import Summary
from cueloop_protocol.shapes import Question

logger = logging.getLogger(__name__)

LAST = 2**60
"""A position after all others: nothing of a run whose end was told without its record is told again."""

UNREADABLE = "The record of the run was written by another version of the daemon and cannot be gone on with."

AGAIN = 5.0
"""Seconds before a record that could not be opened is tried again."""


class Carrying:
    """One per engine; all from its event loop. `open` is the run that is active, `life` what drives it, once it is driven."""

    def __init__(self, around: Surroundings) -> None:
        self.open: RunRow | None = None
        self.life: Life | None = None
        self.serving = anyio.Event()
        self.outcomes: dict[str, int] = {}
        """Runs whose end was told by this daemon, by outcome."""
        self.adopted = 0
        """Runs of another daemon that were taken over."""
        self.outbox = Outbox(around.lane, around.hub, around.revision, self._published)
        self.desk = QuestionDesk(around.lane, around.stamp, self.outbox.wake)
        self._around = around
        self._questions: dict[str, Question] = {}
        self._lives: dict[str, Life] = {}
        self._adopted = anyio.Event()
        self._opening = anyio.Lock()
        self._is_leaving = False
        self._tasks: TaskGroup | None = None

    @property
    def questions(self) -> tuple[Question, ...]:
        """Those that stand, as they were told."""
        return tuple(self._questions.values())

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Read the record, say so, and carry what there is once the socket is served; until cancelled."""
        try:
            await self.open_record()
        except DbError as exc:
            logger.error("runs_unavailable reason=%s", exc)
        try:
            async with anyio.create_task_group() as self._tasks:
                await self._tasks.start(self.outbox.run)
                self._tasks.start_soon(self._around.face.keep_written)
                task_status.started()
                await self.serving.wait()
                await self._begin_work()
                await anyio.sleep_forever()
        finally:
            for life in self._lives.values():
                life.over.set()
            self._adopted.set()
            with anyio.CancelScope(shield=True):
                await self._end_life()
                await self._around.lane.close()

    def leave(self) -> None:
        """The daemon begins to leave as it should: the run has not ended it."""
        self._is_leaving = True

    async def _end_life(self) -> None:
        """One try: a medium that takes nothing keeps nobody from leaving, and one life is counted too many."""
        row = self.open
        if self._is_leaving and row is not None and row.run_id in self._lives:
            with suppress(DbError):
                await self._around.lane.once(lambda db: queries.end_life(db, row.run_id))

    async def open_record(self) -> None:
        """Open the record unless it is open, and see which run it says is active. DbError: it cannot be used now."""
        async with self._opening:
            lane = self._around.lane
            if lane.is_open:
                return
            moved_to = await lane.open()
            if moved_to is not None:
                self._around.warn(f"The record of runs was damaged; it is kept as {moved_to}, and a new one was begun.")
            await lane.keep_ballast()
            row = await lane.read(queries.open_run)
            if row is not None and self.open is None:
                self._take_up(row)
            await self._around.owed(await lane.read(owed_rows))
            stored = await lane.read(queries.open_questions)
            self._questions = {question.question_id: question for question in stored}

    def begin(self, row: RunRow, active: ActiveRun) -> None:
        """A run was just recorded: from this turn on it is the active one."""
        self.open = row
        self._around.face.begin(active)
        self._drive(row, Loaded(row.run_id, STATE_CODEC.dump_json(State()), next_order=1), lives=0)

    async def cancelled(self, run_id: str) -> Summary | None:
        """Cancel the active run, and return when nothing of it is left; None if the daemon leaves first."""
        await self._adopted.wait()
        life = self._lives.get(run_id)
        if life is not None:
            life.journal.cancel()
            await life.over.wait()
            if life.summary is not None:
                return life.summary
        try:
            row = await self._around.lane.read(lambda db: queries.get(db, run_id))
        except DbError:
            return None
        return None if row is None or row.summary is None else Summary.model_validate_json(row.summary)

    async def seen_off(self, run_id: str) -> None:
        """Return when nothing of this run is left."""
        if (life := self._lives.get(run_id)) is not None:
            await life.over.wait()

    def _take_up(self, row: RunRow) -> None:
        """A run that another daemon began. Until it is settled or goes on, it is `adopting`."""
        self.open = row
        view = view_from(row.view)
        active = ActiveRun(row.run_id, row.mode, view.task_id, view.phase, "adopting", row.started_at, view.decision)
        self._around.face.begin(active, cancelling=row.cancel_at is not None)

    async def _begin_work(self) -> None:
        """What a new daemon owes to the runs of its predecessors."""
        while not self._around.lane.is_open:
            try:
                await self.open_record()
            except DbError:
                self._adopted.set()  # nobody waits for what cannot be read
                await anyio.sleep(AGAIN)
        row = self.open
        if row is not None and row.run_id not in self._lives:
            try:
                await self._adopt(row)
            except DbError as exc:
                await self._give_up(row, exc)
        self._adopted.set()
        ours = frozenset() if row is None else frozenset({row.run_id})
        for warning in await self._around.carriers.unknown(ours, self._around.lane.generation):
            self._around.warn(warning)
        await self._forget_marks(ours)

    async def _adopt(self, row: RunRow) -> None:
        lane, run_id = self._around.lane, row.run_id
        lives = await lane.write(lambda db: queries.begin_life(db, run_id))
        try:
            loaded = await lane.read(lambda db: load(db, run_id))
        except ValueError as exc:
            logger.error("run_unreadable run_id=%s reason=%s", run_id, exc)
            loaded = await lane.read(lambda db: load(db, run_id, State(next="close", ending=failure(UNREADABLE))))
        self.adopted += 1
        self._drive(row, loaded, lives)

    async def _give_up(self, row: RunRow, why: DbError) -> None:
        """The record was lost before the run could be gone on with: nobody can say where it stood."""
        logger.error("run_not_adopted run_id=%s reason=%s", row.run_id, why)
        for warning in await self._around.carriers.bury(row.run_id, self._around.lane.generation):
            self._around.warn(warning)
        ending = failure(f"The record of the run was lost: {why}.")
        self._end_unrecorded(row.run_id, over(row.run_id, summary_of(ending), ending.error, self._around.stamp()))

    def _drive(self, row: RunRow, loaded: Loaded, lives: int) -> None:
        assert self._tasks is not None  # nothing is driven before `run`
        journal = RunJournal(RunStore(self._around.lane, row.run_id), loaded, self._around.stamp)
        self.life = self._lives[row.run_id] = Life(self._host(row), journal, lives=lives)
        self._tasks.start_soon(self._live, row, self.life, name=f"run {row.run_id}")

    async def _live(self, row: RunRow, life: Life) -> None:
        await life.drive(self._around.lane.generation)
        if self.open is row:
            return  # left as it is, for the daemon that owns it now
        self._lives.pop(row.run_id, None)
        await prune(self._around, row)

    def _host(self, row: RunRow) -> Host:
        around = self._around

        async def world(identity: RunIdentity, carrier: Carrier, journal: RunJournal) -> World:
            return await around.worlds(Living(identity, row.request.config, carrier, journal, self.desk, self.outbox.drained))

        def identity() -> RunIdentity:
            try:
                request = row.request
            except ValueError as exc:
                raise ValueError(UNREADABLE) from exc
            return RunIdentity(row.run_id, request.params, request.caller, around.carriers.environment(row.run_id))

        async def up(carrier: Carrier) -> None:
            state = view_from(row.view).state if around.face.is_adopting else "starting"
            around.face.change(shim=carrier.shim, state=state)
            await around.face.written()

        async def unrecorded(over: Over) -> None:
            self._end_unrecorded(row.run_id, over)
            with suppress(HubClosed):
                await around.hub.flush()

        return Host(
            lane=around.lane,
            outbox=self.outbox,
            carriers=around.carriers,
            program=around.program,
            boot_id=row.boot_id,
            stamp=around.stamp,
            identity=identity,
            world=world,
            up=up,
            unrecorded=unrecorded,
            warn=around.warn,
            ready=around.ready,
        )

    def _published(self, held: Held) -> None:
        """In the turn in which it is handed to the hub: what lies at or below a subscriber's cursor is in its snapshot."""
        if held.out.method == "question":
            question = Question.model_validate(from_json(held.out.params)["question"])
            self._questions[question.question_id] = question
            self._around.face.change(state="asking")
        elif held.out.method == "question.resolved":
            self._questions.pop(from_json(held.out.params)["question_id"], None)
            self._around.face.change(state="running")
        elif held.out.method == "run.finished" and self.open is not None and self.open.run_id == held.run_id:
            self._ended(str(from_json(held.out.params)["summary"]["outcome"]))

    def _ended(self, outcome: str) -> None:
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        self.open = self.life = None
        self._around.face.end()
        self._around.changed()

    def _end_unrecorded(self, run_id: str, over: Over) -> None:
        """Tell the end from memory, and write it when that can be; its mark keeps it from being told then."""
        params = b'{"revision":%d,%b' % (self._around.revision(), over.finished.params[1:])
        with suppress(HubClosed):
            self._around.hub.publish(NewEvent("run.finished", None, run_id, None, params, Mark(run_id, STATE, LAST)))
        self._questions.clear()
        self._ended(str(from_json(over.summary)["outcome"]))
        if self._tasks is not None:
            self._tasks.start_soon(self._record_later, run_id, over)

    async def _record_later(self, run_id: str, over: Over) -> None:
        while self._around.lane.is_open:
            try:
                await self._around.lane.last_words(lambda db: end_open(db, run_id, over))
                return
            except DbError:
                await anyio.sleep(AGAIN)

    async def _forget_marks(self, ours: frozenset[str]) -> None:
        """Marks of runs that have nothing left to say; only here, so that none goes before what it marks is removed."""
        with suppress(HubClosed, DbError):
            waiting = await self._around.lane.read(speakers)
            for run_id in self._around.hub.marked_runs() - ours - waiting:
                self._around.hub.forget_marks(run_id)

"""One run while this daemon lives: its shim, its program, and an end in any case."""

from __future__ import annotations

import logging
from contextlib import suppress

import anyio
import anyio.to_thread

from cueloop_daemon.runs.batches import end_open
from cueloop_daemon.runs.beside import accompanied
from cueloop_daemon.runs.carrier import Carrier
from cueloop_daemon.runs.ending import ends_without_program, failure, over, summary_of, told
from cueloop_daemon.runs.host import Host
from cueloop_daemon.runs.journal import RunJournal
from cueloop_daemon.runs.records import Conversation
from cueloop_daemon.runs.shim import LinkClosed
from cueloop_daemon.runs.state import Ending, ScopeName
from cueloop_daemon.runs.store import Unrecordable
from cueloop_daemon.runs.types import Diverged, RunCancelled, ShimGone, World
from cueloop_daemon.store.not_writable import NotWritable
from cueloop_daemon.store.outcomes import OwnershipLost
from cueloop_daemon.store.sqlite import DbError
from cueloop_protocol.documents.envelope import Warned
from cueloop_protocol.documents.summary import Summary

logger = logging.getLogger(__name__)

CONVERGING: frozenset[ScopeName] = frozenset({"open", "begin", "finish", "between", "close"})
"""Scopes that may be read anew from their beginning: all that they do may be repeated."""

MOST_LIVES = 5
"""A run that has ended as many daemons, without anything new being written, is not carried on by another.

A daemon that left as it should, for a successor or because it was told to, is none of them.
"""

PATIENCE = 5.0
"""Seconds that a run which is cancelled waits for its shim to answer, before that is ended, too."""

SOON = 0.05
"""Seconds that something may wait for the next commit."""

PIECE = 1 << 20
"""Bytes of output read at a time."""

INTERRUPTED = "The run was interrupted: the process that carried it is gone."

BROKEN = "The daemon failed while it carried the run; its log has the details."


class Life:
    """Made for a run that is open; `drive` once. `over` is set when `run.finished` is told, and nothing of the run is left."""

    def __init__(self, host: Host, journal: RunJournal, *, lives: int) -> None:
        """`lives` is how many daemons have begun to carry the run since anything new was written about it, those aside that left
        as they should; 0: it is new."""
        self.over = anyio.Event()
        self.journal = journal
        self.summary: Summary | None = None
        """How the run ended."""
        self._host = host
        self._lives = lives
        self._carrier: Carrier | None = None
        self._wanted = anyio.Event()
        self._is_troubled = False
        journal.dirty = self._wanted_soon
        journal.committed = self._committed
        journal.trouble = self._troubled

    @property
    def run_id(self) -> str:
        """Which run it is."""
        return self.journal.run_id

    async def drive(self, generation: int) -> None:
        """Carry the run to its end, and see it off. Cancelled when the daemon leaves: the run then waits for another life."""
        try:
            await accompanied(lambda: self._to_its_end(generation), self._flush_soon)
        except (OwnershipLost, LinkClosed) as lost:
            logger.warning("run_left run_id=%s reason=%s", self.run_id, lost)
            return
        if self.summary is None and self.journal.state.ending is not None:
            self.summary = summary_of(self.journal.state.ending)
        await self._host.outbox.drained()
        if self._carrier is not None:
            await self._carrier.end()
        self.over.set()

    async def _to_its_end(self, generation: int) -> None:
        try:
            await self._carried(generation)
        except Unrecordable as exc:
            logger.error("run_unrecordable run_id=%s reason=%s", self.run_id, exc)
            if self._carrier is not None:
                await self._carrier.abort()
            await self._end_as("The record of the run could not be written.", str(exc))
        except (OwnershipLost, LinkClosed):
            raise
        except Exception as exc:  # whatever it is: the daemon goes on, and the run has an end
            logger.error("run_broken run_id=%s", self.run_id, exc_info=exc)
            if self._carrier is not None:
                await self._carrier.abort()
            await self._bury(BROKEN)

    async def _carried(self, generation: int) -> None:
        if self._lives >= MOST_LIVES:
            await self._bury("The run ended several daemons without getting any further, so it was not carried on.")
            return
        try:
            carrier = self._carrier = await self._found(generation)
            identity = await anyio.to_thread.run_sync(self._host.identity)
        except ShimGone:
            await self._bury(INTERRUPTED)
            return
        except RunCancelled:
            await self._bury("The run was cancelled before its shim answered.")
            return
        except (NotWritable, OSError, ValueError) as exc:
            await self._bury(f"The run could not be carried on: {exc}")
            return
        await self._host.up(carrier)
        await self._watched(carrier, await self._host.world(identity, carrier, self.journal))

    async def _found(self, generation: int) -> Carrier:
        """The run's shim; a run that is cancelled does not wait for one that does not answer."""

        async def find() -> Carrier:
            return await self._host.carriers.carry(self.run_id, self._host.boot_id, generation)

        async def give_up() -> None:
            await self.journal.until_cancelled()
            await anyio.sleep(PATIENCE)
            finding.cancel()

        async def load() -> None:
            await anyio.to_thread.run_sync(self._host.ready)

        with anyio.CancelScope() as finding:
            return await accompanied(find, give_up, load)
        raise RunCancelled

    async def _watched(self, carrier: Carrier, world: World) -> None:
        """The program, until it is over or its shim is lost."""
        is_gone = False
        driving = anyio.CancelScope()

        async def lose() -> None:
            nonlocal is_gone
            await carrier.lost()
            is_gone = True
            driving.cancel()

        async def run() -> None:
            nonlocal is_gone
            with driving:
                try:
                    await self._run_program(carrier, world)
                except ShimGone:
                    is_gone = True

        await accompanied(run, lose, lambda: self._heed_dismissal(carrier))
        if is_gone and self.journal.state.next != "over":
            await self._bury(INTERRUPTED)

    async def _heed_dismissal(self, carrier: Carrier) -> None:
        await carrier.dismissed()
        self.journal.cancel()

    async def _run_program(self, carrier: Carrier, world: World) -> None:
        """Again and again while it can go on: another version's record is read anew, what fails goes on to the closing scope."""
        failures = 0
        while self.journal.state.next != "over":
            try:
                await self._host.program(self.journal.state, self.journal, world)
            except Diverged as exc:
                logger.warning("run_diverged run_id=%s scope=%s reason=%s", self.run_id, self.journal.state.next, exc)
                if self.journal.state.next in CONVERGING:
                    await self.journal.restart()
                else:
                    await self._let_child_end(carrier)
                    await self._close(failure("Another version of the daemon had begun this phase; it was not gone on with."))
            except RunCancelled:
                await self._close(Ending(outcome="stopped", exit_code=0))
            except (ShimGone, Unrecordable, OwnershipLost, LinkClosed):
                raise
            except NotWritable as exc:
                failures += 1
                await self._fail(failures, exc, failure(exc.message, exc.code, exc.remedy))
            except Exception as exc:
                failures += 1
                await self._fail(failures, exc, failure(BROKEN))

    async def _fail(self, failures: int, exc: Exception, ending: Ending) -> None:
        logger.error("run_failed run_id=%s scope=%s", self.run_id, self.journal.state.next, exc_info=exc)
        if failures > 1:
            raise Unrecordable("the run could not be closed") from exc
        assert ending.error is not None
        self.journal.say(Warned(timestamp=self._host.stamp(), message=ending.error.message))
        await self._close(ending)

    async def _close(self, ending: Ending) -> None:
        await self.journal.abandon(self.journal.state.model_copy(update={"next": "close", "ending": ending, "task": None}))

    async def _let_child_end(self, carrier: Carrier) -> None:
        with suppress(RunCancelled):
            await self.journal.wait(carrier.quiet())

    async def _bury(self, why: str) -> None:
        """The shim is no more: end what it left, then say that the run is over. The session stays, a person or `--resume` decides."""
        with suppress(Unrecordable):
            await self.journal.flush()
        left = await self._host.carriers.bury(self.run_id, self._host.lane.generation)
        await self._end_as(why, None, left, await self._heard())

    async def _heard(self) -> Conversation | None:
        """The conversation that the agent had named, and nobody was there to take down; it has to be gone on with, too."""
        invocation = self.journal.left_invocation()
        if invocation is None:
            return None

        def read(number: int, offset: int) -> tuple[int, bytes]:
            return self._host.carriers.output(self.run_id, number, "out", offset, PIECE)

        def listen() -> Conversation | None:
            from cueloop_daemon.runs.left import conversation_left  # with the runners, which a daemon without runs never loads

            return conversation_left(self.journal.state, invocation, read)

        try:
            return await anyio.to_thread.run_sync(listen)
        except (OSError, ValueError) as exc:
            logger.warning("run_last_words_unread run_id=%s reason=%s", self.run_id, exc)
            return None

    async def _end_as(self, why: str, detail: str | None, left: tuple[str, ...] = (), heard: Conversation | None = None) -> None:
        at, run_id = self._host.stamp(), self.run_id
        said = [told(run_id, Warned(timestamp=at, message=text)) for text in (*left, why)]
        self.summary, error = ends_without_program(self.journal.cancelled, why, detail)
        done = over(run_id, self.summary, error, at)
        try:
            await self._host.lane.last_words(lambda db: end_open(db, run_id, done, said, heard))
        except DbError as exc:
            logger.error("run_end_unrecorded run_id=%s reason=%s", run_id, exc)
            await self._host.unrecorded(done)
        self._host.outbox.wake()

    def _committed(self) -> None:
        self._is_troubled = False
        self._host.outbox.wake()

    def _troubled(self, reason: str) -> None:
        if not self._is_troubled:
            self._is_troubled = True
            self._host.warn(f"The record of run {self.run_id} cannot be written ({reason}). The run waits until it can.")

    def _wanted_soon(self) -> None:
        self._wanted.set()

    async def _flush_soon(self) -> None:
        """What was said is told soon, also while no step comes that would commit it."""
        while True:
            await self._wanted.wait()
            self._wanted = anyio.Event()
            await anyio.sleep(SOON)
            try:
                await self.journal.flush()
            except Unrecordable:
                return  # the program meets it, too

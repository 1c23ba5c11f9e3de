"""One connection: bytes in, requests begun in their order, answers out as they come, and an end that leaves nothing behind."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread
from pydantic import BaseModel

from cueloop_daemon.server.batch import Batch
from cueloop_daemon.server.calls import Calls, Outcome, Pending, settle
from cueloop_daemon.server.dispatch import Bound
from cueloop_daemon.server.envelope import Invalid, Message, messages, notification, read, refusal
from cueloop_daemon.server.parting import is_gone, part
from cueloop_daemon.server.receiver import Receiver
from cueloop_daemon.server.requests import Peer
from cueloop_daemon.server.shell import Shell
from cueloop_daemon.server.writer import Writer
from cueloop_protocol import codes
from cueloop_protocol.codes import RpcError
from cueloop_protocol.framing import Decoder, FrameError

log = logging.getLogger(__name__)
S = TypeVar("S")


class Connection(Generic[S]):
    """A connected socket, served until either side ends it. `run` once, in any case: it closes the socket."""

    def __init__(self, sock: socket.socket, number: int, pid: int | None, shell: Shell[S]) -> None:
        """`sock` is non-blocking and becomes the connection's own."""
        self._sock = sock
        self._shell = shell
        self._limits = shell.limits
        self._decoder = Decoder(shell.limits.frame)
        self._receiver = Receiver(sock, number)
        self._writer = Writer(sock, shell.limits.queued)
        self.peer = Peer(number, pid, self._writer)
        traffic = shell.counters.traffic
        self._calls = Calls(shell.dispatcher, shell.services, shell.clock, self.peer, self._writer, shell.refusal, traffic)
        self._greeting = anyio.CancelScope()
        self._dismissal: RpcError | None = None
        self._input_ended = False
        self._reading: set[Callable[[], None]] = set()  # ends one call that only reads
        self._under_way = 0
        self._one_less = anyio.Event()
        self._turn = 0

    async def run(self, spoke: Callable[[], None]) -> None:
        """Serve until the peer goes, an error ends the input, or the surrounding scope is cancelled.

        `spoke` is called when the first whole frame is here. What is broken in this connection is logged and ends it alone.
        """
        try:
            async with anyio.create_task_group() as self._tasks:
                self._writer.start(self._tasks)
                await self._serve(spoke)
                self._tasks.cancel_scope.cancel()
        except Exception:
            log.exception("connection_failed peer=%d", self.peer.id)
        finally:
            self._close()

    def _close(self) -> None:
        self._writer.close()
        self._receiver.close()
        self._sock.close()
        self._wake()
        for farewell in self.peer.farewells:
            try:
                farewell()
            except Exception:
                log.exception("farewell_failed peer=%d", self.peer.id)

    async def _serve(self, spoke: Callable[[], None]) -> None:
        frames = await self._greet()
        if frames:
            spoke()
        while frames and await self._take(frames):
            frames = await self._receive()
        if self._dismissal is not None:
            self._shell.counters.refused += 1
            self._shell.counters.traffic.failed(self._dismissal)
            self._writer.send(refusal(None, self._dismissal))
            with anyio.move_on_after(self._limits.linger):
                await self.settled()
                if not self._input_ended:
                    self._receiver.close()
                    await part(self._sock)
        elif not is_gone(self._sock):
            await self.settled()  # the peer only closed its own half, and still reads

    def dismiss(self, error: RpcError) -> None:
        """End a connection that has not spoken yet, with a reason."""
        self._dismissal = error
        self._greeting.cancel()

    def end_input(self) -> None:
        """Take nothing more: what has come is still answered, then the connection ends. Who sends from here on is told at once
        by the system (a broken pipe), so that nobody wonders whether a request was read.
        """
        self._input_ended = True
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RD)
        for stop in list(self._reading):
            stop()  # such calls only read, so that nothing was done; what waits behind them has its turn

    def tell(self, method: str, params: BaseModel) -> None:
        """Send a notification."""
        self._writer.send(notification(method, params))

    async def answered(self) -> None:
        """Return when no call of this connection is under way."""
        while self._under_way:
            await self._one_less.wait()

    async def settled(self) -> None:
        """Return when every call of this connection is answered and every answer sent, or the connection is gone."""
        while self._under_way and not self._writer.closed:
            await self._one_less.wait()
        await self._writer.flushed()

    async def _greet(self) -> list[bytes | FrameError]:
        """The first frames; none if they did not come in time, or another needed the place: then `_dismissal` says so."""
        self._greeting.deadline = anyio.current_time() + self._limits.speak_within
        with self._greeting:
            return await self._receive()
        if self._dismissal is None:
            self._dismissal = codes.limit_exceeded(f"No request came within {self._limits.speak_within:g} seconds.")
        return []

    async def _receive(self) -> list[bytes | FrameError]:
        """The next frames, at least one; none at the end of the input."""
        while True:
            data = await self._receiver.receive()
            frames = self._decoder.feed(data) if data else self._decoder.finish()
            self._writer.kind = self._decoder.kind
            if frames or not data:
                return frames

    async def _take(self, frames: list[bytes | FrameError]) -> bool:
        """Begin what the frames ask for, in order. False: one of them ended the input."""
        for frame in frames:
            if isinstance(frame, FrameError):
                self._dismissal = self._unread(RpcError(frame.code, frame.message))
                return False
            if self._turn >= self._limits.turn:
                self._turn = 0
                await anyio.lowlevel.checkpoint()
            while self._under_way >= self._limits.in_flight:
                await self._one_less.wait()
            if self._writer.is_congested:
                await self._writer.room()
            self._turn += 1
            try:
                value = read(frame) if len(frame) <= self._limits.big_frame else await anyio.to_thread.run_sync(read, frame)
            except RpcError as error:
                self._shell.counters.traffic.failed(error)
                self._writer.send(refusal(None, self._unread(error)))
            else:
                self._begin(messages(value, self._limits.batch_items, len(frame)))
        return True

    def _begin(self, asked: Message | Invalid | list[Message | Invalid]) -> None:
        self._shell.counters.requests += 1
        if isinstance(asked, Message):
            outcome = self._calls.begin(asked)
            if isinstance(outcome, Pending):
                self._start(outcome)
            elif outcome.body is not None:
                self._writer.send(outcome.body)
        elif isinstance(asked, Invalid):
            self._shell.counters.traffic.failed(asked.error)
            self._writer.send(refusal(asked.id, asked.error))
        else:
            self._start_batch(asked)

    def _start(self, pending: Pending[S]) -> None:
        scope = anyio.CancelScope()
        forget = self._calls.may_be_cancelled(pending.bound, scope)  # already now, not when the task has its first turn
        is_durable = pending.bound.entry.durable
        self._under_way += 1
        self._shell.counters.durable += is_durable
        if not is_durable:
            self._reading.add(scope.cancel)

        async def finish() -> None:
            try:
                outcome: Outcome | None = None
                with scope:
                    outcome = await self._calls.finish(pending)
                await self._deliver(outcome or self._unmade(pending.bound))
            finally:
                forget()
                self._reading.discard(scope.cancel)
                self._shell.counters.durable -= is_durable
                self._ended_one()

        group = self._shell.durable if is_durable else self._tasks
        group.start_soon(finish, name=pending.bound.method)

    def _unread(self, error: RpcError) -> RpcError:
        """Why a frame is no request; where we ended the input in its middle, that is the reason."""
        return (self._shell.refusal() if self._input_ended else None) or error

    def _unmade(self, bound: Bound[S]) -> Outcome:
        """The outcome of a call that was ended: by its id, or because the server ends."""
        refused = self._shell.refusal() if self._input_ended else None
        return self._calls.withdrawn(bound) if refused is None else self._calls.refused(bound, refused)

    async def _deliver(self, outcome: Outcome) -> None:
        if outcome.body is not None:
            self._writer.send(outcome.body)
        if outcome.after:
            await settle(outcome)

    def _start_batch(self, items: list[Message | Invalid]) -> None:
        self._under_way += 1

        async def finish() -> None:
            try:
                await batch.run(items)
            finally:
                self._shell.counters.durable -= is_durable
                self._reading.discard(batch.stop)
                self._ended_one()

        batch = Batch(self._calls, self._writer, self._limits, self._unmade)
        is_durable = any(isinstance(item, Message) and self._shell.dispatcher.is_durable(item.method) for item in items)
        self._shell.counters.durable += is_durable
        if not is_durable:
            self._reading.add(batch.stop)
        (self._shell.durable if is_durable else self._tasks).start_soon(finish, name="batch")

    def _ended_one(self) -> None:
        self._under_way -= 1
        self._wake()

    def _wake(self) -> None:
        self._one_less.set()
        self._one_less = anyio.Event()

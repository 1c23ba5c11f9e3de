"""The server: accepts, serves, and ends within a time that is known beforehand."""

from __future__ import annotations

import logging
import socket
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import anyio
from anyio.abc import TaskGroup, TaskStatus

from cueloop_daemon.server.connection import Connection
from cueloop_daemon.server.dispatch import Dispatcher
from cueloop_daemon.server.door import Door, Stranger, Wait, who
from cueloop_daemon.server.limits import Limits
from cueloop_daemon.server.listener import Accept, Listener, accept_one
from cueloop_daemon.server.parting import turn_away
from cueloop_daemon.server.requests import Clock, Table
from cueloop_daemon.server.shell import Counters, Shell
from cueloop_daemon.server.traffic import Traffic
from cueloop_protocol import codes
from cueloop_protocol.codes import RpcError
from cueloop_protocol.notifications import ClosingNotification
from cueloop_protocol.shapes import ShutdownReason

log = logging.getLogger(__name__)
S = TypeVar("S")

LAST_PATIENCE = 0.1
"""Seconds that a silent connection has for its first frame when the server ends, whatever `limits.patience` is."""


class Server(Generic[S]):
    """Serves one table to all who may come in. `serve` once.

    Every task is in the group of `serve`: a connection ends with the server, a reading call with its connection, a durable call
    with the grace after `close`.
    """

    def __init__(
        self,
        table: Table[S],
        services: S,
        *,
        clock: Clock,
        uid: int,
        limits: Limits | None = None,
        overdue: Callable[[], None] | None = None,
        accept: Accept = accept_one,
        process: Mapping[str, object] | None = None,
    ) -> None:
        """`uid` is the only user who may come in. `process` is told to whoever has to wait for our end: pid, start time, boot.

        `overdue` is called, in a thread of its own, when `serve` has not returned by `limits.grace + limits.overdue` after
        `close`, as something hangs that cannot be cancelled. It is expected to end the process.
        """
        self._services = services
        self._clock = clock
        self._uid = uid
        self._limits = limits or Limits()
        self._dispatcher = Dispatcher(table)
        self._overdue = overdue
        self._accept_one = accept
        self._door: Door[Connection[S]] = Door(self._limits)
        self._counters = Counters(traffic=Traffic(table))
        self._process = dict(process or {})
        self._closing = anyio.Event()
        self._has_heir = False
        self._reason: ShutdownReason | None = None
        self._changed = anyio.Event()  # somebody spoke or left
        self._waiting: deque[socket.socket] = deque()  # accepted, and not let in yet
        self._turned_away = 0
        self._timer: threading.Timer | None = None

    @property
    def is_closing(self) -> bool:
        """Whether `close` was called: requests are answered with `shutting_down`."""
        return self._reason is not None

    @property
    def connections(self) -> int:
        """How many there are now."""
        return self._door.count

    @property
    def durable_calls(self) -> int:
        """How many calls are under way that outlive their connection: what starts, stops or writes."""
        return self._counters.durable

    def traffic(self) -> tuple[int, int]:
        """How many connections there are now, and how many there ever were."""
        return self._door.count, self._counters.connections

    @property
    def measured(self) -> Traffic:
        """Requests, errors and latencies."""
        return self._counters.traffic

    def counters(self) -> Mapping[str, int]:
        """What was done so far, for `daemon.status`."""
        made = self._counters
        return {
            "connections": self._door.count,
            "connections_silent": self._door.silent,
            "connections_total": made.connections,
            "connections_refused": made.refused,
            "requests_total": made.requests,
        }

    def close(self, reason: ShutdownReason, *, has_heir: bool = False) -> None:
        """Begin to end: each connection is told why, then `serve` drains and returns. Again: nothing happens.

        `has_heir`: another process has the listening socket, too. Its name stays, and who waits in its queue is left there.
        """
        if self._reason is not None:
            return
        self._reason = reason
        self._has_heir = has_heir
        log.info("server_closing reason=%s connections=%d", reason, self._door.count)
        for connection in self._door.inside:
            self._tell_end(connection, reason)
        self._closing.set()
        if self._overdue is not None:
            self._timer = threading.Timer(self._grace + self._limits.overdue, self._overdue)
            self._timer.daemon = True
            self._timer.start()

    async def serve(self, listener: Listener, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Accept and serve until `close`, then drain. The listener is closed when this returns, whichever way.

        Whatever is under way after `close` has `limits.grace` to end; then it is cancelled. What was read, or lies in a
        connection when its input is closed, is answered, if only with `shutting_down`, and that means that nothing was done.
        """
        try:
            async with anyio.create_task_group() as connections:
                with anyio.CancelScope() as patience:
                    async with anyio.create_task_group() as durable:
                        shell = self._shell(durable)
                        await self._accept_until_closed(listener, connections, shell, task_status)
                        for sock in [*self._take_waiting(), *([] if self._has_heir else listener.retire())]:
                            self._welcome(sock, connections, shell)
                        if self._has_heir:
                            listener.let_go()
                        listener.close()
                        patience.deadline = anyio.current_time() + self._grace
                        await self._hear_who_came_last()
                        for connection in self._door.inside:
                            await connection.answered()
                with anyio.move_on_after(self._limits.handover_farewell if self._has_heir else self._limits.farewell):
                    for connection in self._door.inside:
                        connection.end_input()
                    while self._door.inside:
                        await self._changed.wait()
                connections.cancel_scope.cancel()
        finally:
            for sock in self._take_waiting():
                sock.close()
            listener.close()
            if self._timer is not None:
                self._timer.cancel()
        log.info("server_closed reason=%s", self._reason)

    @property
    def _grace(self) -> float:
        return self._limits.handover_grace if self._has_heir else self._limits.grace

    async def _hear_who_came_last(self) -> None:
        """A connection that has not spoken has the patience of every new one, so that who was let in is also heard."""
        with anyio.move_on_after(min(self._limits.patience, LAST_PATIENCE)):
            while self._door.silent:
                await self._changed.wait()

    def _shell(self, durable: TaskGroup) -> Shell[S]:
        return Shell(self._dispatcher, self._services, self._clock, self._limits, durable, self._refusal, self._counters)

    def _refusal(self) -> RpcError | None:
        """What every request is answered once the end has begun."""
        return None if self._reason is None else codes.shutting_down(self._reason, self._process)

    async def _accept_until_closed(
        self, listener: Listener, connections: TaskGroup, shell: Shell[S], task_status: TaskStatus[None]
    ) -> None:
        async with anyio.create_task_group() as accepting:
            accepting.start_soon(self._accept, listener, connections, shell, name="accept")
            task_status.started()
            await self._closing.wait()
            accepting.cancel_scope.cancel()

    async def _accept(self, listener: Listener, connections: TaskGroup, shell: Shell[S]) -> None:
        while True:
            self._waiting.extend(await listener.accept(self._accept_one))
            if not self._waiting:
                # Every place in the system is taken. The socket stays readable, so asking again at once would spin.
                with anyio.move_on_after(self._limits.accept_retry):
                    await self._changed.wait()
            while self._waiting:
                await self._make_room()
                self._welcome(self._waiting.popleft(), connections, shell)

    def _take_waiting(self) -> list[socket.socket]:
        waiting = list(self._waiting)
        self._waiting.clear()
        return waiting

    async def _make_room(self) -> None:
        """Return when there may be one more that has not spoken. The oldest go for it, after their patience."""
        while (found := self._door.to_dismiss(anyio.current_time())) is not None:
            if isinstance(found, Wait):
                with anyio.move_on_after(found.seconds):
                    await self._changed.wait()
            else:
                self._spoke(found)
                found.dismiss(codes.limit_exceeded(f"{self._limits.unspoken} connections have not spoken; this was the oldest."))

    def _welcome(self, sock: socket.socket, connections: TaskGroup, shell: Shell[S]) -> None:
        guest = who(sock, self._uid)
        if isinstance(guest, Stranger):
            sock.close()
        elif (refused := self._door.refusal()) is not None:
            connections.start_soon(self._turn_away, sock, refused, name="turn away")
        else:
            self._counters.connections += 1
            connection = Connection(sock, self._counters.connections, guest.pid, shell)
            self._door.enter(connection, anyio.current_time())
            if self._reason is not None:
                self._tell_end(connection, self._reason)
            connections.start_soon(self._serve, connection, name=f"connection {connection.peer.id}")

    def _tell_end(self, connection: Connection[S], reason: ShutdownReason) -> None:
        connection.tell("daemon.closing", ClosingNotification.model_validate({"reason": reason, **self._process}))

    async def _serve(self, connection: Connection[S]) -> None:
        try:
            await connection.run(lambda: self._spoke(connection))
        finally:
            self._door.leave(connection)
            self._wake()

    async def _turn_away(self, sock: socket.socket, error: RpcError) -> None:
        """Tell a connection that there is no place for it. Only so many are given the time to read that without hurry."""
        self._counters.refused += 1
        self._turned_away += 1
        try:
            await turn_away(sock, error, self._limits.linger if self._turned_away <= self._limits.unspoken else 0)
        finally:
            self._turned_away -= 1

    def _spoke(self, connection: Connection[S]) -> None:
        self._door.spoke(connection)
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

"""The notifications of one run over connections that are made again when they are lost. Blocking calls. Standard library only.

The asynchronous library has the same (`cueloop_client.api`); loading it would take as long as a whole short run may.
"""

from __future__ import annotations

from cueloop_client.again import until_served
from cueloop_client.calling import with_caller
from cueloop_client.exchange import ANSWER_LIMIT, CHUNK, read_json, read_message, result_of, send
from cueloop_client.failures import BadAnswer, Failure, Lost, NoDaemon
from cueloop_client.reach import reach_or_upgrade
from cueloop_client.shapes import answer, text
from cueloop_protocol.frozen import Frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator, Mapping
    from typing import Any

    from cueloop_client.context import Context
    from cueloop_client.world import Deadline

ASKED = 1


class Gone(Failure):
    """The daemon left because its repository is gone."""


class Note(Frozen):
    """One notification, as it came."""

    method: str
    params: Mapping[str, Any]


def dial(context: Context, *, start: bool, at_once: bool = False) -> socket.socket:
    """A connection to the daemon, which is started if that is allowed; `at_once`: also if a start failed a moment ago.

    Raises NoDaemon and what `reach` and `launch` do.
    """
    world, root = context.world, context.root()

    def to_start() -> Deadline:
        return world.deadline(context.start_seconds)

    sock = reach_or_upgrade(root, world, world.deadline(context.seconds), to_start, may_start=start)
    if sock is None and start:
        from cueloop_client.launch import launch

        sock = launch(root, world, to_start(), at_once=at_once)
    if sock is None:
        raise NoDaemon("No daemon runs for this repository.", "Start it: cueloop daemon start")
    return sock


class Feed:
    """A subscription. `open` it, wait until `fileno` can be read, take `notes`; after `is_open` became false, `open` it again.

    Each note comes once and in order, whatever happens to the connections; or a `gap` says what cannot be told.
    """

    def __init__(self, context: Context, run_id: str | None, cursor: str | None) -> None:
        """`cursor`: where to begin; None: now."""
        self._context = context
        self._params = {} if run_id is None else {"run_id": run_id}
        self._sock: socket.socket | None = None
        self._buffer = bytearray()
        self._scanned = 0
        self._name = ""
        self.cursor = cursor
        self.reason = "lost"
        """Why the last connection ended: as the daemon said, or `lost`."""
        self.snapshot: Mapping[str, Any] = {}
        """The state where the present connection began."""

    @property
    def is_open(self) -> bool:
        """Whether there is a connection."""
        return self._sock is not None

    def fileno(self) -> int:
        """The descriptor to poll."""
        assert self._sock is not None, "not open"
        return self._sock.fileno()

    def open(self, *, start: bool) -> None:
        """Subscribe from the cursor on. Raises RpcError, and what `dial` and `exchange` raise; then it is not open."""

        def attempt() -> socket.socket:
            sock = dial(self._context, start=start)
            try:
                self._subscribe(sock)
            except BaseException:
                sock.close()
                raise
            return sock

        world = self._context.world
        sock = until_served(self._context.root(), world, world.deadline(self._context.seconds), attempt, may_start=start)
        self._sock, self.reason, self._scanned = sock, "lost", 0

    def notes(self) -> Iterator[Note]:
        """What came with the answer or can be read now. Closes when the connection ended. Raises BadAnswer, Gone, or RpcError."""
        assert self._sock is not None, "not open"
        is_over = False
        try:
            data = self._sock.recv(CHUNK)
            is_over = not data
            self._buffer += data
        except BlockingIOError:
            pass
        except OSError:
            is_over = True
        yield from self._complete()
        if is_over:
            self.close()
            if self.reason == "repository_gone":
                raise Gone("The daemon left because its repository is gone.")

    def close(self) -> None:
        """End the subscription; again is nothing."""
        if self._sock is not None:
            self._sock.close()
            self._sock = None
        self._buffer.clear()

    def _complete(self) -> Iterator[Note]:
        """The notes whose lines are complete."""
        while (end := self._buffer.find(b"\n", self._scanned)) >= 0:
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            self._scanned = 0
            note = self._note(read_json(line))
            if note is not None:
                yield note
        self._scanned = len(self._buffer)
        if self._scanned > ANSWER_LIMIT:
            raise BadAnswer(f"The daemon's message is over {ANSWER_LIMIT} bytes.")

    def _subscribe(self, sock: socket.socket) -> None:
        world = self._context.world
        deadline = world.deadline(self._context.seconds)
        asked = self._params if self.cursor is None else {**self._params, "cursor": self.cursor}
        params = with_caller(world.caller(), "events.subscribe", asked)
        send(sock, {"jsonrpc": "2.0", "id": ASKED, "method": "events.subscribe", "params": params}, deadline)
        self._buffer.clear()
        while "method" in (message := read_message(sock, self._buffer, deadline)):
            pass
        result = answer(result_of(message, ASKED))
        self._name, begins = text(result.get("subscription")), text(result.get("cursor"))
        if not self._name or not begins:
            raise BadAnswer("The daemon's answer to events.subscribe has no subscription or no cursor.")
        snapshot = result.get("snapshot")
        self.snapshot = snapshot if isinstance(snapshot, dict) else {}
        self.cursor = self.cursor or begins
        sock.setblocking(False)

    def _note(self, message: dict[str, Any]) -> Note | None:
        """The note in a message, if it has one for us; the cursor moves in the same step."""
        method, params = message.get("method"), message.get("params")
        if not isinstance(method, str) or not isinstance(params, dict):
            if "error" in message:
                result_of(message, ASKED)
            return None
        if method == "daemon.closing":
            self.reason = text(params.get("reason"), "lost")
            return None
        cursor = params.get("cursor")
        if params.get("subscription") != self._name or not isinstance(cursor, str):
            return None
        self.cursor = cursor
        return Note(method, params)


class Pending:
    """One request whose answer is waited for beside other things: poll `fileno`, then `result`."""

    def __init__(self, context: Context, method: str, params: Mapping[str, Any]) -> None:
        """Connect, to a daemon that is started if need be, and send. Raises what `dial` and `exchange.send` do."""
        self.method = method
        request = {"jsonrpc": "2.0", "id": ASKED, "method": method, "params": dict(params)}
        self._buffer = bytearray()

        def attempt() -> socket.socket:
            sock = dial(context, start=True, at_once=True)
            try:
                send(sock, request, context.world.deadline(context.seconds))
            except BaseException:
                sock.close()
                raise
            return sock

        self._sock = until_served(context.root(), context.world, context.world.deadline(context.seconds), attempt)
        self._sock.setblocking(False)

    def fileno(self) -> int:
        """The descriptor to poll."""
        return self._sock.fileno()

    def close(self) -> None:
        """Withdraw; what was asked for may happen nevertheless."""
        self._sock.close()

    def result(self) -> dict[str, Any] | None:
        """The result if it is there, None if not yet. Raises RpcError for an error, and Lost or BadAnswer."""
        try:
            data = self._sock.recv(CHUNK)
        except BlockingIOError:
            return None
        except OSError as exc:
            raise Lost(f"The connection to the daemon broke before the answer came ({exc.strerror}).") from exc
        if not data:
            raise Lost("The daemon closed the connection without an answer.")
        self._buffer += data
        while (end := self._buffer.find(b"\n")) >= 0:
            message = read_json(bytes(self._buffer[:end]))
            del self._buffer[: end + 1]
            if "method" not in message:
                return answer(result_of(message, ASKED))
        return None

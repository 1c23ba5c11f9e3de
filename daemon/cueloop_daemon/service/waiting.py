"""Callers who wait at a manager's socket and cannot be served are told why. Standard library only.

A process that leaves with the queue full is started again at once, until the manager gives up on the socket (systemd: 20 times in
2 s, launchd: a pause of 10 s). So whoever cannot serve takes everybody out of the queue, and stays long enough.
"""

from __future__ import annotations

import json
import select
import socket
import time
from contextlib import suppress

from cueloop_protocol.codes import DOCUMENT_UNUSABLE, NOT_WRITABLE, RpcError
from cueloop_protocol.framing import Kind, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


SPEAK_SECONDS = 0.5
"""How long a caller may be silent before it is answered in lines: its first byte says how it frames."""
LINGER_SECONDS = 1.0
"""How long one that was answered may take to read that and go."""
MOST = 256
SYSTEMD_LIFE = 4.0
"""More than `StartLimitIntervalSec` divided by `StartLimitBurst` of the unit: callers alone never use up its starts."""
LAUNCHD_LIFE = 10.0
"""launchd lets ten seconds pass between two starts of a job, unless it lived that long."""
STEP = 0.05


def refuse_all(listening: Sequence[socket.socket], message: str, word: str, remedy: str | None, manager: str) -> None:
    """Tell who waits, and who comes in the next seconds, why the daemon cannot start. Those seconds keep the manager from giving up."""
    error = RpcError(NOT_WRITABLE if word == "permission_denied" else DOCUMENT_UNUSABLE, message, word=word, detail=remedy)
    until = time.monotonic() + (LAUNCHD_LIFE if manager == "launchd" else SYSTEMD_LIFE)
    refuse_waiting(listening, lambda: error, lambda: time.monotonic() >= until)
    for sock in listening:
        sock.close()


class _Caller:
    def __init__(self, sock: socket.socket, until: float) -> None:
        self.sock = sock
        self.until = until
        self.is_told = False


def refuse_waiting(
    listening: Sequence[socket.socket],
    error: Callable[[], RpcError],
    is_over: Callable[[], bool],
    *,
    monotonic: Callable[[], float] = time.monotonic,
    step: float = STEP,
) -> None:
    """Answer everybody who connects with `error` until `is_over` says so, which is asked at least each `step` seconds.

    Blocking. The sockets stay open; those who are answered have a second to read it.
    """
    for sock in listening:
        sock.setblocking(False)
    callers: dict[int, _Caller] = {}
    poll = select.poll()
    for sock in listening:
        poll.register(sock, select.POLLIN)
    doors = {sock.fileno(): sock for sock in listening}
    has_ended = False
    try:
        while not has_ended or callers:
            if not has_ended and is_over():
                has_ended = True
                for sock in listening:
                    poll.unregister(sock)  # who comes from here on is for whoever serves next
            for fd, _ in poll.poll(step * 1000):
                if fd in doors:
                    _let_in(doors[fd], callers, poll, monotonic() + SPEAK_SECONDS)
                elif _hear(callers[fd], error, monotonic):
                    _let_go(callers, fd, poll)
            now = monotonic()
            for fd, caller in list(callers.items()):
                if now >= caller.until:
                    if caller.is_told:
                        _let_go(callers, fd, poll)
                    else:
                        _tell(caller, error(), None, now)
    finally:
        for fd in list(callers):
            _let_go(callers, fd, poll)


def _let_in(door: socket.socket, callers: dict[int, _Caller], poll: select.poll, until: float) -> None:
    while len(callers) < MOST:
        try:
            sock = door.accept()[0]
        except OSError:
            return
        sock.setblocking(False)
        callers[sock.fileno()] = _Caller(sock, until)
        poll.register(sock, select.POLLIN)


def _hear(caller: _Caller, error: Callable[[], RpcError], monotonic: Callable[[], float]) -> bool:
    """Read what the caller sent, and answer the first of it; whether it has gone."""
    try:
        data = caller.sock.recv(64 * 1024)
    except BlockingIOError:
        return False
    except OSError:
        return True
    if not data:
        return True
    if not caller.is_told:
        _tell(
            caller, error(), Kind.HEADERS if data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"C", b"c") else Kind.LINES, monotonic()
        )
    return False


def _tell(caller: _Caller, error: RpcError, kind: Kind | None, now: float) -> None:
    caller.is_told, caller.until = True, now + LINGER_SECONDS
    answer = {"jsonrpc": "2.0", "id": None, "error": error.to_wire()}
    with suppress(OSError):
        caller.sock.send(encode(json.dumps(answer).encode(), kind))
        caller.sock.shutdown(socket.SHUT_WR)


def _let_go(callers: dict[int, _Caller], fd: int, poll: select.poll) -> None:
    poll.unregister(fd)
    callers.pop(fd).sock.close()

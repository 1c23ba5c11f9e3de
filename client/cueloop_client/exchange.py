"""One request and one answer over a connected socket, in blocking calls that all end at one deadline. Standard library only."""

from __future__ import annotations

import errno
import socket
import sys

from cueloop_client.failures import BadAnswer, Lost, Silent, Stranger, Unsent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from cueloop_client.world import Deadline

ANSWER_LIMIT = 256 * 1024 * 1024
"""Bytes of one answer: a queue of 10,000 tasks is some 12 MB, and each stands in an overview once."""
CHUNK = 256 * 1024
BATCH = 1000
"""Messages that may come before the answer (notifications on their way when we asked)."""
NOBODY = frozenset({errno.ENOENT, errno.ECONNREFUSED, errno.ENOTSOCK, errno.EPROTOTYPE, errno.ECONNRESET})
"""What connecting says when nobody listens at a path any more."""


def connect(path: str, uid: int, deadline: Deadline) -> socket.socket | None:
    """A connection to the process of `uid` that listens at `path`; None if nobody listens there.

    Raises Silent when the listener does not take the connection by the deadline, Stranger when it belongs to somebody else.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # With a full backlog a non-blocking connect to a Unix socket fails at once; a blocking one with SO_SNDTIMEO waits.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _timeval(max(deadline.left(), 0.001)))
        sock.connect(path)
        _check_peer(sock, uid)
    except OSError as exc:
        sock.close()
        if exc.errno in NOBODY:
            return None
        if exc.errno in (errno.EAGAIN, errno.ETIMEDOUT):
            raise _silent(deadline, "does not take connections") from exc
        raise Stranger(f"The daemon's socket cannot be used: {exc.strerror or exc}.") from exc
    except BaseException:
        sock.close()
        raise
    return sock


def ask(sock: socket.socket, method: str, params: Mapping[str, Any], deadline: Deadline) -> Any:
    """The result of one call. Raises RpcError for an answer that is an error, and Silent, Lost or BadAnswer."""
    send(sock, {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, deadline)
    buffer = bytearray()
    for _ in range(BATCH):
        message = read_message(sock, buffer, deadline)
        if "method" in message and "id" not in message:
            continue
        return result_of(message, 1)
    raise BadAnswer("The daemon sent a thousand messages and no answer.")


def send(sock: socket.socket, request: Mapping[str, Any], deadline: Deadline) -> None:
    """Send one message as a line. Raises Silent or Unsent: a line whose end was not taken is no request."""
    import json

    try:
        sock.settimeout(max(deadline.left(), 0.001))
        sock.sendall(json.dumps(request, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n")
    except TimeoutError as exc:
        raise _silent(deadline, "does not read what is sent to it") from exc
    except OSError as exc:
        raise Unsent(f"The daemon closed the connection before the request was sent ({exc.strerror}).") from exc


def read_message(sock: socket.socket, buffer: bytearray, deadline: Deadline) -> dict[str, Any]:
    """The next message; what lies behind it stays in `buffer`. Raises Silent, Lost or BadAnswer."""
    return read_json(_read_line(sock, buffer, deadline))


def read_json(line: bytes) -> dict[str, Any]:
    """The message in a line. Raises BadAnswer."""
    import json

    try:
        message: object = json.loads(line)
    except (ValueError, RecursionError) as exc:
        raise BadAnswer("The daemon's answer is not JSON.", _excerpt(line)) from exc
    if not isinstance(message, dict):
        raise BadAnswer("The daemon's answer is not a JSON-RPC message.", _excerpt(line))
    return message


def result_of(message: Mapping[str, Any], number: int) -> Any:
    """The result in the answer to request `number`. Raises its RpcError, or BadAnswer."""
    if "error" in message and message.get("id") in (number, None):
        from cueloop_protocol.codes import RpcError

        raise RpcError.from_wire(message["error"])
    if message.get("id") != number or isinstance(message.get("id"), bool):
        raise BadAnswer(f"The daemon answered request {message.get('id')!r}, which was not asked.")
    if "result" not in message:
        raise BadAnswer("The daemon's answer has neither a result nor an error.")
    return message["result"]


def await_close(sock: socket.socket, deadline: Deadline) -> None:
    """Read over what still comes and return when the other side has closed. Raises Silent."""
    while True:
        left = deadline.left()
        if left <= 0:
            raise _silent(deadline, "does not close the connection")
        try:
            sock.settimeout(left)
            if not sock.recv(CHUNK):
                return
        except TimeoutError:
            continue
        except OSError:
            return


def _read_line(sock: socket.socket, buffer: bytearray, deadline: Deadline) -> bytes:
    start = 0
    while (end := buffer.find(b"\n", start)) < 0:
        start = len(buffer)
        if start > ANSWER_LIMIT:
            raise BadAnswer(f"The daemon's answer is over {ANSWER_LIMIT} bytes.")
        left = deadline.left()
        if left <= 0:
            raise _silent(deadline, "does not answer")
        try:
            sock.settimeout(left)
            data = sock.recv(CHUNK)
        except TimeoutError as exc:
            raise _silent(deadline, "does not answer") from exc
        except OSError as exc:
            raise Lost(f"The connection to the daemon broke before the answer came ({exc.strerror}).") from exc
        if not data:
            raise Lost(
                "The daemon closed the connection in the middle of its answer."
                if buffer
                else "The daemon closed the connection without an answer."
            )
        buffer += data
    line = bytes(buffer[:end])
    del buffer[: end + 1]
    return line


def _check_peer(sock: socket.socket, uid: int) -> None:
    from cueloop_protocol.identity import peer_uid

    peer = peer_uid(sock)
    # launchd is root, and called listen for us: our own folder, 0700, says enough (`find_socket`).
    if peer != uid and not (sys.platform == "darwin" and peer == 0):
        raise Stranger(f"The process that listens at the daemon's place belongs to another user (uid {peer}).")


def _silent(deadline: Deadline, what: str) -> Silent:
    return Silent(
        f"The daemon of this repository {what} (waited {deadline.seconds:g} s).",
        "It may be busy or stopped: try again, look at `cueloop daemon status`, or answer without it by --no-daemon.",
    )


def _timeval(seconds: float) -> bytes:
    import struct

    return struct.pack("ll", int(seconds), int(seconds % 1 * 1_000_000))


def _excerpt(line: bytes) -> str:
    return "It begins with " + repr(line[:80].decode("utf-8", "replace")) + "."

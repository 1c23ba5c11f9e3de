"""A client with nothing in it: lines over a Unix socket, blocking."""

from __future__ import annotations

import json
import socket
from types import TracebackType
from typing import Any

WAIT = 20.0
"""Seconds that anything may take; beyond, a benchmark fails instead of hanging."""


class Wire:
    """One connection. Errors of the peer raise RuntimeError with its text."""

    def __init__(self, path: str) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(WAIT)
        self.sock.connect(path)
        self._rest = bytearray()

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.sock.close()

    def exchange(self, line: bytes) -> bytes:
        """Send a line, give the next one: the shortest way there and back."""
        self.sock.sendall(line)
        return self.line()

    def line(self) -> bytes:
        """The next line. EOFError at the end of the input."""
        while (end := self._rest.find(b"\n")) < 0:
            data = self.sock.recv(1 << 20)
            if not data:
                raise EOFError("the peer closed the connection")
            self._rest += data
        line = bytes(self._rest[:end])
        del self._rest[: end + 1]
        return line

    def call(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """The result of a call; notifications before it are read over."""
        self.sock.sendall(request(method, params))
        while "method" in (message := json.loads(self.line())):
            continue
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error']}")
        return message["result"]

    def event(self) -> Any:
        """The params of the next notification `event`."""
        while (message := json.loads(self.line())).get("method") != "event":
            continue
        return message["params"]


def request(method: str, params: dict[str, Any] | None = None) -> bytes:
    """A request as a line; always with the id 1."""
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}).encode() + b"\n"

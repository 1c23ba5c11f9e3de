"""A client made of `socket` and `json` alone, so that what is tested is what is on the wire. Every wait has an end."""

from __future__ import annotations

import json
import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

SECONDS = 20.0
"""How long a test waits for what must come. It is an end, not a pace: nothing waits longer than it has to."""


class Refused(Exception):
    """An answer that is an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"{error['code']} {error['message']}")
        self.code: int = error["code"]
        self.error = error
        self.data: dict[str, Any] = error.get("data") or {}


class Ended(Exception):
    """The daemon closed the connection."""


class Wire:
    """One connection that speaks lines. Notifications that come between answers are kept for `note`."""

    def __init__(self, path: str | Path) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(SECONDS)
        try:
            self.sock.connect(str(path))
        except BaseException:
            self.sock.close()
            raise
        self._buffer = bytearray()
        self._number = 0
        self.notes: deque[dict[str, Any]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None) -> None:
        self.sock.close()

    def send(self, data: bytes) -> None:
        """Send these bytes as they are."""
        self.sock.settimeout(SECONDS)
        self.sock.sendall(data)

    def fill(self) -> None:
        """Ask for much and read nothing, until the daemon cannot send what it has for us."""
        request = b'{"jsonrpc":"2.0","id":1,"method":"rpc.discover"}\n' * 100
        self.sock.settimeout(0.1)
        with suppress(TimeoutError):
            while True:
                self.sock.send(request)

    def line(self, seconds: float = SECONDS) -> dict[str, Any] | list[Any]:
        """The next line that comes. Raises TimeoutError, Ended."""
        deadline = time.monotonic() + seconds
        while (end := self._buffer.find(b"\n")) < 0:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"nothing came within {seconds:g} s")
            self.sock.settimeout(left)
            try:
                data = self.sock.recv(1 << 20)
            except ConnectionError as exc:
                raise Ended from exc
            if not data:
                raise Ended
            self._buffer += data
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        message: dict[str, Any] | list[Any] = json.loads(line)
        return message

    def answer(self, seconds: float = SECONDS) -> dict[str, Any]:
        """The next message that is no notification."""
        while True:
            message = self.line(seconds)
            assert isinstance(message, dict)
            if "method" not in message:
                return message
            self.notes.append(message)

    def ask(self, method: str, **params: object) -> dict[str, Any]:
        """The whole answer to one request."""
        self._number += 1
        request = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self.send(json.dumps(request).encode() + b"\n")
        answer = self.answer()
        assert answer["id"] == self._number
        return answer

    def call(self, method: str, **params: object) -> Any:
        """The result of one request. Raises Refused."""
        answer = self.ask(method, **params)
        if "error" in answer:
            raise Refused(answer["error"])
        return answer["result"]

    def note(self, seconds: float = SECONDS) -> dict[str, Any]:
        """The next notification. Raises TimeoutError, Ended."""
        if self.notes:
            return self.notes.popleft()
        message = self.line(seconds)
        assert isinstance(message, dict)
        assert "method" in message, message
        return message

    def event(self, seconds: float = SECONDS) -> dict[str, Any]:
        """The envelope of the next event; anything else that comes fails the test."""
        note = self.note(seconds)
        assert note["method"] == "event", note
        envelope: dict[str, Any] = note["params"]["event"]
        return envelope

    def events_until(self, is_last: Callable[[dict[str, Any]], bool], seconds: float = SECONDS) -> list[dict[str, Any]]:
        """The envelopes up to the one that is asked for, in order."""
        deadline, found = time.monotonic() + seconds, list[dict[str, Any]]()
        while not found or not is_last(found[-1]):
            found.append(self.event(deadline - time.monotonic()))
        return found

    def subscribe(self, **params: object) -> dict[str, Any]:
        """Subscribe; the result."""
        result: dict[str, Any] = self.call("events.subscribe", **params)
        return result

    def is_quiet(self, seconds: float) -> bool:
        """Whether nothing comes for so long."""
        try:
            note = self.note(seconds)
        except TimeoutError:
            return True
        self.notes.appendleft(note)
        return False


def wait_for(is_so: Callable[[], bool], what: str, seconds: float = SECONDS) -> float:
    """Return when it is so, and how many seconds that took; fails the test where it does not become so in time."""
    began = time.monotonic()
    while not is_so():
        if time.monotonic() - began > seconds:
            raise AssertionError(f"{what}: not within {seconds:g} s")
        time.sleep(0.01)
    return time.monotonic() - began

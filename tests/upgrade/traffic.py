"""Callers and subscribers that do what clients do while daemons change under them, and remember all that happened to them."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from support.wire import SECONDS, Ended, Wire

SHUTTING_DOWN = -32007
LSP = b"Content-Length: %d\r\n\r\n%b"
Note = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """One call: when it began and was answered (monotonic seconds), and how often it was asked anew before."""

    began: float
    ended: float
    repeats: int

    @property
    def wait(self) -> float:
        return self.ended - self.began


@dataclass
class Caller:
    """Makes a new connection for each call, in both framings in turn. A refused connection is an error and ends nothing."""

    path: str
    calls: list[Call] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """Errors of connecting."""
    lost: list[str] = field(default_factory=list)
    """Connections that ended without a word after the request was taken."""

    def run(self, is_over: threading.Event) -> None:
        """Until it is over. Between two calls there is a moment, as machines have other things to do."""
        number = 0
        while not is_over.wait(0.002):
            number += 1
            self._call(number)

    def _call(self, number: int) -> None:
        began, repeats = time.monotonic(), 0
        while not self._once(number):
            repeats += 1
            if time.monotonic() - began > SECONDS:
                self.lost.append("no answer at all")
                return
        self.calls.append(Call(began, time.monotonic(), repeats))

    def _once(self, number: int) -> bool:
        """Whether the answer came; False: nothing was done, ask again."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(SECONDS)
            try:
                sock.connect(self.path)
            except OSError as exc:
                self.refused.append(f"{type(exc).__name__} {exc.errno}")
                return False
            is_lsp = number % 2 == 0
            body = json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping" if number % 3 else "daemon.status"}).encode()
            try:
                sock.sendall(LSP % (len(body), body) if is_lsp else body + b"\n")
            except OSError:
                return False  # a broken pipe: it was not taken
            try:
                answers = _answers(sock, is_lsp)
            except OSError as exc:
                self.lost.append(f"{type(exc).__name__} {exc.errno}")
                return False
        for answer in answers:
            if "result" in answer and answer.get("id") == number:
                return True
            if answer.get("error", {}).get("code") == SHUTTING_DOWN:
                return False
        self.lost.append(f"closed after {answers}")
        return False


def _answers(sock: socket.socket, is_lsp: bool) -> list[Note]:
    """All messages until one is an answer, or the connection ends."""
    data, found = b"", list[Note]()
    while not any("method" not in one for one in found):
        more = sock.recv(65536)
        if not more:
            return found
        data += more
        while (body := _take(data, is_lsp)) is not None:
            text, data = body
            found.append(json.loads(text))
    return found


def _take(data: bytes, is_lsp: bool) -> tuple[bytes, bytes] | None:
    # A notification that comes before the daemon knows our framing is a line.
    if not is_lsp or data.startswith(b"{"):
        line, end, rest = data.partition(b"\n")
        return (line, rest) if end else None
    head, end, rest = data.partition(b"\r\n\r\n")
    if not end:
        return None
    size = int(head.partition(b":")[2].split(b"\r\n")[0])
    return (rest[:size], rest[size:]) if len(rest) >= size else None


@dataclass
class Subscriber:
    """Hears everything from its first cursor on, over as many connections as it takes."""

    path: str
    cursor: str | None = None
    notes: list[Note] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    """Why its connections ended."""

    def run(self, is_enough: Callable[[Subscriber], bool]) -> None:
        """Until it has heard enough."""
        while not is_enough(self):
            try:
                self._listen(is_enough)
            except (Ended, OSError):
                self.reasons.append("cut")

    def _listen(self, is_enough: Callable[[Subscriber], bool]) -> None:
        with Wire(self.path) as wire:
            asked = {} if self.cursor is None else {"cursor": self.cursor}
            answer = wire.ask("events.subscribe", **asked)
            if "error" in answer:
                assert answer["error"]["code"] == SHUTTING_DOWN, answer
                return
            self.cursor = self.cursor or answer["result"]["cursor"]
            while not is_enough(self):
                note = wire.note()
                if note["method"] == "daemon.closing":
                    self.reasons.append(note["params"]["reason"])
                    continue
                self.cursor = note["params"]["cursor"]
                self.notes.append(note)


def essence(notes: list[Note]) -> tuple[list[tuple[str, str]], str, int]:
    """What two who heard the same have in common: place and kind of each event, all output as one text, and the places as numbers.

    Output of one agent that lies together may come as one event to who lags, with the place of its last.
    """
    events, output, last = list[tuple[str, str]](), "", -1
    for note in notes:
        params = note["params"]
        epoch, _, seq = params["cursor"].partition(":")
        assert int(seq) > last, f"{params['cursor']} came after {epoch}:{last}"
        last = int(seq)
        event = params.get("event", {})
        if event.get("kind") == "runner_output":
            output += event["payload"]["text"]
        else:
            events.append((params["cursor"], event.get("kind", note["method"])))
    return events, output, last


def percentile(values: list[float], share: float) -> float:
    """The value below which that share lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

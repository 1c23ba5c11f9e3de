"""A stand-in for the model APIs of the agent CLIs: one HTTP server on loopback, scripted, that remembers what it was asked.

It also is the proxy of the CLIs it serves (`proxy_environment`): whatever a CLI tries to reach outside arrives here as a stranger, is
refused and remembered, so that a test can say that nothing left the machine.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from agents.dialects import Dialect, Turn, dialect_of

HELD_LIMIT = 120.0
"""Seconds after which a held answer is let go whatever the test does, so that no thread of the server outlives a failed test."""


@dataclass(frozen=True)
class Text:
    """The model says `text` and ends its turn."""

    text: str = "Done."


@dataclass(frozen=True)
class Failure:
    """The API answers with this HTTP status and its own error body. `retry_after`: seconds, sent as the header of that name."""

    status: int
    retry_after: int | None = None


@dataclass(frozen=True)
class Held:
    """The answer begins, and ends only when `StandIn.release` is called."""

    text: str = "Done."


@dataclass(frozen=True)
class Cut:
    """The connection is closed after the first event of the answer."""

    text: str = "Done."


Answer = Text | Failure | Held | Cut


@dataclass(frozen=True)
class Asked:
    """One request for an answer of the model, in the order of arrival."""

    dialect: str
    path: str
    turns: tuple[Turn, ...]
    side_talk: bool

    @property
    def said(self) -> str:
        """The whole history that this request shows the model, as one text."""
        return "\n".join(turn.text for turn in self.turns)


class StandIn:
    """The server. `play` sets what is answered; `asked` is what came. Safe to use from any thread while it serves."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._script: list[Answer] = [Text()]
        self._asked: list[Asked] = []
        self._strangers: list[str] = []
        self._released = threading.Event()
        stand_in = self

        class Handler(_Handler):
            owner = stand_in

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name="stand-in")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def play(self, *answers: Answer) -> None:
        """From now on the requests of a conversation get `answers` in turn, the last one for ever; side talk gets the current one."""
        with self._lock:
            self._script = list(answers)
            self._released.clear()

    def release(self) -> None:
        """Every held answer ends, also those that are yet to begin until the next `play`."""
        self._released.set()

    @property
    def asked(self) -> tuple[Asked, ...]:
        """What the model was asked within conversations, side talk left out."""
        with self._lock:
            return tuple(one for one in self._asked if not one.side_talk)

    @property
    def all_asked(self) -> tuple[Asked, ...]:
        with self._lock:
            return tuple(self._asked)

    @property
    def strangers(self) -> tuple[str, ...]:
        """`host:port` (or address) of everything outside that was tried through the proxy."""
        with self._lock:
            return tuple(self._strangers)

    def forget(self) -> None:
        with self._lock:
            self._asked.clear()
            self._strangers.clear()

    def proxy_environment(self) -> dict[str, str]:
        """Variables that lead a CLI's every request for elsewhere to this server, which refuses it."""
        proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"), self.url)
        return proxies | {"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"}

    def note_stranger(self, address: str) -> None:
        with self._lock:
            self._strangers.append(address)

    def next_answer(self, dialect: Dialect, path: str, body: Mapping[str, Any]) -> tuple[int, Answer]:
        """Remembers the request; its number (from 1) and what to answer."""
        one = Asked(dialect.name, path, dialect.turns(body), dialect.is_side_talk(body))
        with self._lock:
            self._asked.append(one)
            answer = self._script[0]
            if not one.side_talk and len(self._script) > 1:
                del self._script[0]
            return len(self._asked), answer

    def wait_released(self) -> None:
        self._released.wait(HELD_LIMIT)


class _Handler(BaseHTTPRequestHandler):
    """One connection of a CLI."""

    owner: StandIn
    protocol_version = "HTTP/1.1"
    server_version = "stand-in"
    sys_version = ""

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):  # a CLI that ends drops its kept connections
            super().handle()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name is the base class's
        """Silent: the requests are kept as values."""

    def do_CONNECT(self) -> None:
        self._refuse_stranger(self.path)

    def do_HEAD(self) -> None:
        self._whole(200, None)

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        if address.netloc and address.netloc != f"127.0.0.1:{self.owner.port}":
            self._refuse_stranger(address.netloc)
        elif address.path.endswith("/models"):
            self._whole(200, {"object": "list", "data": [], "models": []})
        else:
            self._whole(404, {"error": {"message": "no such thing here"}})

    def do_POST(self) -> None:
        raw = self._body()
        address = urlsplit(self.path)
        if address.netloc and address.netloc != f"127.0.0.1:{self.owner.port}":
            self._refuse_stranger(address.netloc)
            return
        if address.path.endswith((":countTokens", "/count_tokens")):
            self._whole(200, {"totalTokens": 10, "input_tokens": 10})
            return
        dialect = dialect_of(address.path)
        if dialect is None:
            self._whole(404, {"error": {"message": "no such thing here"}})
            return
        body = json.loads(raw)
        number, answer = self.owner.next_answer(dialect, address.path, body)
        model = body.get("model") or address.path.rpartition("/")[2].partition(":")[0]
        streamed = bool(body.get("stream")) or address.path.endswith(":streamGenerateContent")
        self._answer(dialect, answer, str(model), number, streamed)

    def _answer(self, dialect: Dialect, answer: Answer, model: str, number: int, streamed: bool) -> None:
        match answer:
            case Failure(status=status, retry_after=seconds):
                self._whole(status, dialect.error(status), {} if seconds is None else {"Retry-After": str(seconds)})
            case Text(text=text) if not streamed:
                self._whole(200, dialect.whole(text, model, number))
            case Text(text=text) | Held(text=text) | Cut(text=text):
                self._stream(dialect, answer, list(dialect.events(text, model, number)))

    def _stream(self, dialect: Dialect, answer: Answer, events: list[bytes]) -> None:
        """Server-sent events until the connection closes, which is how the end is told."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            self.wfile.write(events[0] if dialect.name != "gemini" or not isinstance(answer, Cut) else events[0][:20])
            self.wfile.flush()
            if isinstance(answer, Cut):
                return
            if isinstance(answer, Held):
                self.owner.wait_released()
            for event in events[1:]:
                self.wfile.write(event)
        except (BrokenPipeError, ConnectionResetError):
            return  # the CLI went away, as a cancelled one does

    def _refuse_stranger(self, address: str) -> None:
        self.owner.note_stranger(address)
        self._whole(403, {"error": {"message": "nothing outside is reached from here"}})

    def _body(self) -> bytes:
        """The request's body, with a length or in chunks (Node sends chunks)."""
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts: list[bytes] = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _whole(self, status: int, body: object, headers: Mapping[str, str] | None = None) -> None:
        raw = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(raw)

"""Starts and kills `events_daemon.py`, and clients of it that read in threads."""

from __future__ import annotations

import json
import random
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cueloop_protocol.cursor import Cursor

SCRIPT = Path(__file__).with_name("events_daemon.py")
PATIENCE = 60.0
"""Seconds after which a wait is a failure; nothing waits that long when all is well."""


class Daemon:
    """One process after the other on the same folder and socket. Clients ask `place` where to connect."""

    def __init__(self, folder: Path, limit: int = 64 * 1024 * 1024) -> None:
        self.folder = folder
        self.limit = limit
        self.lives = 0
        self._ready = threading.Condition()
        self._path: str | None = None
        self.process: subprocess.Popen[bytes]

    def start(self) -> Cursor:
        """A new process; where its log ends."""
        self.lives += 1
        path = str(self.folder / f"s{self.lives}")
        backend = ("asyncio", "trio")[self.lives % 2]
        command = [sys.executable, str(SCRIPT), str(self.folder), path, str(self.limit), backend]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        word, _, cursor = self._line().partition(" ")
        assert word == "ready"
        with self._ready:
            self._path = path
            self._ready.notify_all()
        return Cursor.parse(cursor)

    def place(self, known: str | None) -> str:
        """The socket of a living daemon, another one than `known`."""
        with self._ready:
            assert self._ready.wait_for(lambda: self._path not in (None, known), PATIENCE)
            assert self._path is not None
            return self._path

    def say(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(command.encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, command: str) -> str:
        self.say(command)
        return self._line()

    def kill(self) -> None:
        """SIGKILL, and gone when this returns."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """The clean end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self._end(None)

    def _end(self, sig: signal.Signals | None) -> None:
        with self._ready:
            self._path = None
        if sig is not None:
            self.process.send_signal(sig)
        self.process.wait(PATIENCE)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.endswith(b"\n"), "the process ended without an answer"
        return line.decode().rstrip("\n")


def connect(path: str, cursor: Cursor | None, kinds: list[str] | None = None, buffer: int | None = None) -> socket.socket:
    """A connection that has asked to subscribe. OSError if nobody listens."""
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(PATIENCE)
    if buffer is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    try:
        sock.connect(path)
        sock.sendall(json.dumps({"cursor": str(cursor) if cursor else None, "kinds": kinds}).encode() + b"\n")
    except OSError:
        sock.close()
        raise
    return sock


@dataclass
class Client:
    """Reads until it has heard of `last`, hanging up at random and coming back with its cursor, as often as it is told to."""

    daemon: Daemon
    cursor: Cursor
    last: int
    hangs_up: int
    kinds: list[str] | None = None
    seed: int = 0
    heard: list[tuple[str, Any]] = field(default_factory=list)
    """(method, params) of each notification."""
    hung_up: int = 0
    lost: int = 0
    """How often the daemon ended the connection."""
    progress: threading.Condition = field(default_factory=threading.Condition)

    def run(self) -> None:
        luck = random.Random(self.seed)
        known: str | None = None
        while self.cursor.seq < self.last:
            known = self.daemon.place(known)
            while self.cursor.seq < self.last and self._listen(known, luck):
                pass

    def until(self, seq: int) -> None:
        """Wait until this client has heard of `seq`."""
        with self.progress:
            assert self.progress.wait_for(lambda: self.cursor.seq >= seq, PATIENCE)

    def _listen(self, path: str, luck: random.Random) -> bool:
        """One connection. True if this end hung up, or all is heard; False if the daemon is gone."""
        left = (self.last - self.cursor.seq) // (2 if self.kinds else 1)
        patience = luck.randint(1, 1 + left // (self.hangs_up - self.hung_up + 1))  # on average twice as quick as needed
        try:
            with connect(path, self.cursor, self.kinds) as sock, sock.makefile("rb") as lines:
                assert Cursor.parse(json.loads(lines.readline() or b"{}")["cursor"]) == self.cursor
                for line in lines:
                    if not line.endswith(b"\n"):
                        break
                    self._hear(json.loads(line))
                    patience -= 1
                    if self.cursor.seq >= self.last:
                        return True
                    if patience <= 0 and self.hung_up < self.hangs_up:
                        self.hung_up += 1
                        return True
        except (OSError, KeyError):
            pass
        self.lost += 1
        return False

    def _hear(self, message: Any) -> None:
        params = message["params"]
        self.heard.append((message["method"], params))
        with self.progress:
            self.cursor = Cursor.parse(params["cursor"])
            self.progress.notify_all()

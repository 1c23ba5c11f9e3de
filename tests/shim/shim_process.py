"""A real shim over its real socket, driven without any of the daemon's code but the words they share."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from cueloop_daemon.shim.command import command_line
from cueloop_daemon.shim.spec import OrderSpec, RunSpec, file_bytes
from cueloop_daemon.shim.wire import encode
from cueloop_protocol.identity import process_start_time

PATIENCE = 20.0
"""Seconds that anything may take before a test fails: none is meant to be measured by it."""
HASTY = (
    "import sys; sys.path.extend(sys.argv[1:3]); from cueloop_daemon.shim import boot, main, wake\n"
    "main.TICK, main.GONE, main.FAREWELL, wake.FIRST_WAIT = (seconds / 10 for seconds in "
    "(main.TICK, main.GONE, main.FAREWELL, wake.FIRST_WAIT))\n"
    "sys.exit(boot.main(sys.argv[3:]))"
)
"""The first code of a shim that waits a tenth as long for what may still come."""
Message = dict[str, object]


class Closed(Exception):
    """The shim closed the connection."""


class Talk:
    """One connection."""

    def __init__(self, path: str) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(PATIENCE)
        try:
            self.sock.connect(path)
        except OSError:
            self.sock.close()
            raise
        self._data = b""
        self._kept: list[tuple[str, Message]] = []

    def hello(self, run_id: str, generation: int = 1, protocols: tuple[int, int] = (1, 1)) -> tuple[str, Message]:
        self.send("hello", generation=generation, protocols=protocols, run_id=run_id)
        return self.read()

    def send(self, word: str, **fields: object) -> None:
        self.sock.sendall(encode(word, **fields))

    def read(self) -> tuple[str, Message]:
        """The next message, whatever it is."""
        while b"\n" not in self._data:
            piece = self.sock.recv(65536)
            if not piece:
                raise Closed
            self._data += piece
        line, _, self._data = self._data.partition(b"\n")
        ((word, fields),) = json.loads(line).items()
        return word, fields

    def until(self, wanted: Callable[[str, Message], bool]) -> tuple[str, Message]:
        """The first message that is wanted; the others are kept for later calls."""
        for index, (word, fields) in enumerate(self._kept):
            if wanted(word, fields):
                del self._kept[index]
                return word, fields
        while True:
            word, fields = self.read()
            if wanted(word, fields):
                return word, fields
            self._kept.append((word, fields))

    def ask(self, order: str, **fields: object) -> tuple[str, Message]:
        """Send a wish and read its answer."""
        self.send(order, **fields)
        return self.answer(order, fields.get("n"))

    def answer(self, order: str, n: object = None) -> tuple[str, Message]:
        return self.until(lambda _, told: told.get("to") == order and told.get("n") == n)

    def pushed(self, word: str) -> Message:
        return self.until(lambda got, told: got == word and "to" not in told)[1]

    def is_cut(self) -> bool:
        """Whether the shim closes the connection; waits for it."""
        try:
            while True:
                self.read()
        except (Closed, ConnectionResetError):
            return True

    def close(self) -> None:
        self.sock.close()


class World:
    """A repository with one run, and the shims that are started for it."""

    def __init__(self, base: Path, sockets: Path, **spec: object) -> None:
        self.root = base / "repo"
        self.run_id = "0197f5a0-1111-7000-8000-000000000001"
        self.folder = self.root / ".cueloop/cache/cueloopd/runs" / self.run_id
        self.folder.mkdir(parents=True)
        self.socket = str(sockets / "run.sock")
        told: dict[str, object] = {
            "run_id": self.run_id,
            "protocol": 1,
            "root": str(self.root),
            "socket": self.socket,
            "daemon_argv": (),
            "daemon_env": {},
            "budget": 256 * 1024 * 1024,
            "grace": 5.0,
        }
        self.write("run.json", file_bytes(RunSpec(**{**told, **spec})))
        self.processes: list[subprocess.Popen[bytes]] = []
        self.talks: list[Talk] = []

    def write(self, name: str, data: bytes) -> None:
        (self.folder / name).write_bytes(data)

    def spawn(self, boot: str | None = None) -> tuple[subprocess.Popen[bytes], Message]:
        """Start a shim and read its ready line; `{}` if it died without one."""
        process, pipe = self.launch(boot)
        with pipe:
            line = pipe.readline()
        return process, json.loads(line) if line else {}

    def launch(self, boot: str | None = None) -> tuple[subprocess.Popen[bytes], BinaryIO]:
        """Start a shim: process and ready pipe. `boot` takes the place of the usual first code."""
        root, folder = (os.open(path, os.O_RDONLY | os.O_DIRECTORY) for path in (self.root, self.folder))
        reading, writing = os.pipe()
        argv = command_line(sys.executable, root, folder, writing)
        if boot is not None:
            argv[argv.index("-c") + 1] = boot
        with open(self.folder / "shim.log", "ab") as log:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env={"LANG": "C.UTF-8"},
                pass_fds=(root, folder, writing),
                start_new_session=True,
            )
        for fd in (root, folder, writing):
            os.close(fd)
        self.processes.append(process)
        return process, os.fdopen(reading, "rb")

    def start(self, boot: str | None = None) -> Talk:
        """A shim and a connection that has said hello."""
        _, told = self.spawn(boot)
        assert "ready" in told, (told, (self.folder / "shim.log").read_text())
        return self.connect()

    def talk(self) -> Talk:
        """A connection that has not said hello."""
        talk = Talk(self.socket)
        self.talks.append(talk)
        return talk

    def connect(self, generation: int = 1) -> Talk:
        """A connection that has said hello."""
        talk = self.talk()
        word, _ = talk.hello(self.run_id, generation)
        assert word == "shim"
        return talk

    @property
    def shim(self) -> subprocess.Popen[bytes]:
        return self.processes[-1]

    def order(self, n: int, *argv: str, token: str = "t", env: Mapping[str, str] | None = None, **limits: object) -> None:
        """Write an order's file."""
        told: dict[str, object] = {"stdin": None, "idle": None, "wall": None, "grace": 1.0, "kind": "agent", **limits}
        given = {"PATH": os.environ.get("PATH", "/usr/bin:/bin")} if env is None else dict(env)
        spec = OrderSpec(token=token, argv=argv, env=given, **told)
        self.write(f"{n}.order", file_bytes(spec))

    def python(self, n: int, code: str, **limits: object) -> None:
        """An order to run a program of Python's."""
        self.order(n, sys.executable, "-I", "-S", "-c", code, **limits)

    def output(self, n: int, stream: str = "out") -> bytes:
        """All segments that there are, in order."""
        found = sorted(self.folder.glob(f"{n}.{stream}.*"), key=lambda path: int(path.suffix[1:]))
        return b"".join(path.read_bytes() for path in found)

    def records(self) -> list[tuple[str, Message]]:
        """The record, up to its first NUL."""
        lines = (self.folder / "shim.jsonl").read_bytes().partition(b"\0")[0].splitlines()
        return [next(iter(json.loads(line).items())) for line in lines]

    def close(self) -> None:
        for talk in self.talks:
            talk.close()
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()
        for word, told in self.records() if (self.folder / "shim.jsonl").exists() else []:
            if word == "child" and process_start_time(int(str(told["pid"]))) == told["start"]:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(int(str(told["pid"])), signal.SIGKILL)


def wait_for(condition: Callable[[], object]) -> None:
    """Return when the condition holds; fail after PATIENCE."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.005)


def is_alive(pid: int) -> bool:
    return process_start_time(pid) is not None


def with_run_id(run_id: str) -> Iterator[int]:
    """Live processes that carry the run's variable."""
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"CUELOOP_RUN_ID={run_id}".encode() in (path / "environ").read_bytes().split(b"\0"):
                yield int(path.name)

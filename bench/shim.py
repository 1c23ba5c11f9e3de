"""The shim: how long until it is ready, how much memory it takes, what a child costs through it, how fast it takes output.

`python -m bench.shim` prints one line of JSON for each figure.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.figure import Figure, in_turns
from bench.processes import resident_mb
from cueloop_daemon.shim.command import command_line
from cueloop_daemon.shim.spec import OrderSpec, RunSpec, file_bytes
from cueloop_daemon.shim.wire import RUNS, encode

RUN_ID = "bench-run"
RUNS_TO_MEASURE = 15
OUTPUT = 100_000_000
BARE = (sys.executable, "-I", "-S", "-X", "utf8", "-c", "import json, os, select, signal, ctypes")


@dataclass
class Shim:
    """A shim that is ready, and a connection to it."""

    pid: int
    folder: Path
    sock: socket.socket
    lines: Iterator[bytes]
    n: int = 0

    def say(self, word: str, **fields: object) -> None:
        """Send a wish."""
        self.sock.sendall(encode(word, **fields))

    def hear(self, wanted: str) -> dict[str, object]:
        """The next message of this word."""
        for line in self.lines:
            ((word, told),) = json.loads(line).items()
            if word == wanted:
                return dict(told)
        raise EOFError(f"the shim is gone before it said {wanted}")

    def run(self, *argv: str) -> dict[str, object]:
        """Run a child to its end."""
        self.n += 1
        order = OrderSpec("t", "agent", argv, {"PATH": "/usr/bin:/bin"}, None, None, None, 5.0)
        (self.folder / f"{self.n}.order").write_bytes(file_bytes(order))
        self.say("start", n=self.n, token="t")
        return self.hear("exited")


@contextmanager
def shim() -> Iterator[tuple[Shim, float]]:
    """A shim in a new repository, and the milliseconds from its start to its ready line."""
    with TemporaryDirectory(prefix="shim-") as base:
        root, path = Path(base) / "repo", Path(base) / "s"
        folder = root / RUNS / RUN_ID
        folder.mkdir(parents=True)
        spec = RunSpec(RUN_ID, 1, str(root), str(path), (), {}, 256 * 1024 * 1024, 5.0)
        (folder / "run.json").write_bytes(file_bytes(spec))
        process, took = start(root, folder)
        try:
            with socket.socket(socket.AF_UNIX) as sock:
                sock.connect(str(path))
                talk = Shim(process.pid, folder, sock, iter(sock.makefile("rb")))
                talk.say("hello", generation=1, protocols=[1, 1], run_id=RUN_ID)
                talk.hear("shim")
                yield talk, took
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()


def start(root: Path, folder: Path) -> tuple[subprocess.Popen[bytes], float]:
    """Start a shim; it, and the milliseconds until it was ready."""
    fds = [os.open(one, os.O_RDONLY | os.O_DIRECTORY) for one in (root, folder)]
    reading, writing = os.pipe()
    began = time.perf_counter()
    argv = command_line(sys.executable, *fds, writing)
    process = subprocess.Popen(argv, pass_fds=(*fds, writing), stdin=subprocess.DEVNULL, cwd="/", env={}, start_new_session=True)
    for fd in (*fds, writing):
        os.close(fd)
    with os.fdopen(reading, "rb") as pipe:
        line = pipe.readline()
    took = (time.perf_counter() - began) * 1000
    if "ready" not in json.loads(line):
        raise RuntimeError(f"no shim: {line!r}")
    return process, took


def start_ms() -> float:
    """Milliseconds to a ready shim."""
    with shim() as (_, took):
        return took


def bare_ms() -> float:
    """Milliseconds of an interpreter that imports what no shim can do without."""
    began = time.perf_counter()
    subprocess.run(BARE, check=True)
    return (time.perf_counter() - began) * 1000


def child_ms(argv: tuple[str, ...]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """A child through the shim, from the order to the word of its end, and the same child by itself."""
    with shim() as (talk, _):

        def through() -> float:
            began = time.perf_counter()
            talk.run(*argv)
            return (time.perf_counter() - began) * 1000

        def alone() -> float:
            began = time.perf_counter()
            subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, capture_output=True)
            return (time.perf_counter() - began) * 1000

        return in_turns(RUNS_TO_MEASURE, through, alone)


def memory() -> Iterator[Figure]:
    """Resident memory when it is ready, and after a hundred children and 100 MB of output."""
    ready, later = [], []
    for _ in range(3):
        with shim() as (talk, _):
            ready.append(resident_mb(talk.pid))
            for _ in range(100):
                talk.run("/bin/true")
                talk.say("ack", upto=talk.n)
            talk.run("/bin/sh", "-c", f"head -c {OUTPUT} /dev/zero")
            later.append(resident_mb(talk.pid))
    yield Figure("shim_memory", "MB", tuple(ready), 12.0)
    yield Figure("shim_memory_after_100_children", "MB", tuple(later), 12.5)


def output() -> Figure:
    """Seconds for 100 MB of output, from the order to the word of its end."""
    argv = ("/bin/sh", "-c", f"head -c {OUTPUT} /dev/zero")
    runs, floors = child_ms(argv)
    return Figure("shim_output_100_mb", "ms", runs, 1000.0, floors, "the same child, read by subprocess.run")


def main() -> int:
    """Measure everything."""
    starts, floors = in_turns(RUNS_TO_MEASURE, start_ms, bare_ms)
    print(Figure("shim_start", "ms", starts, 40.0, floors, f"`{' '.join(BARE[1:])}`").to_line(), flush=True)
    runs, alone = child_ms(("/bin/true",))
    print(Figure("shim_child", "ms", runs, 20.0, alone, "the same child by subprocess.run").to_line(), flush=True)
    for figure in memory():
        print(figure.to_line(), flush=True)
    print(output().to_line(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

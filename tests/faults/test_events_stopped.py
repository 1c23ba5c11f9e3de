"""D16 A subscriber that is stopped (SIGSTOP) costs under 1 MiB and delays nobody; woken up, it hears all, or one gap."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cueloop_daemon.events.output import LONGEST_TEXT
from cueloop_protocol.cursor import Cursor
from faults.events_driver import PATIENCE, Daemon, connect

MIB = 1024 * 1024
STOPPED = 8
PORTION = 8_000
STEP = 25
SIZE = 2_000
"""After each step the one who reads is waited for, so that it is never further behind: on a busy machine a step may reach it as one
event, which has room for all of it. A portion is 16 MB of output, more than the log keeps and far more than any socket holds."""

READER = """
import json, socket, sys
sock = socket.socket(socket.AF_UNIX)
sock.connect(sys.argv[1])
sock.sendall(b'{}\\n')
lines = sock.makefile("rb")
print(lines.readline().decode(), end="", flush=True)
sys.stdin.readline()
for line in lines:
    print(line.decode(), end="", flush=True)
"""


assert STEP * (SIZE + 20) < LONGEST_TEXT


@dataclass
class Quick:
    """Reads as fast as it can, in a thread, and knows how far it has come."""

    sock: socket.socket
    at: int = 0
    texts: int = 0
    """How many outputs it heard, also of those that came as one."""
    changed: threading.Condition = field(default_factory=threading.Condition)

    def run(self) -> None:
        with contextlib.suppress(OSError), self.sock.makefile("rb") as lines:
            lines.readline()
            for line in lines:
                params = json.loads(line)["params"]
                with self.changed:
                    self.at = Cursor.parse(params["cursor"]).seq
                    self.texts += params["event"]["payload"]["text"].count(" x")
                    self.changed.notify_all()

    def until(self, seq: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.at >= seq, PATIENCE)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path, limit=4 * MIB)
    daemon.start()
    yield daemon
    daemon.stop()


@pytest.fixture
def stopped(daemon: Daemon) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that subscribe, and are stopped by the test."""
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill it, stopped or not, and wait until it is gone."""
    process.kill()
    process.wait(PATIENCE)
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        pipe.close()


def subscribe_and_stop(daemon: Daemon) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-I", "-c", READER, daemon.place(None)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b'{"cursor"')
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)
    return process


def memory(daemon: Daemon) -> int:
    """Bytes of the daemon in memory."""
    statm = Path(f"/proc/{daemon.process.pid}/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    found = subprocess.run(["ps", "-o", "rss=", "-p", str(daemon.process.pid)], capture_output=True, check=True)
    return int(found.stdout) * 1024


def publish(daemon: Daemon, quick: Quick) -> float:
    """Seconds that a portion takes to the one who reads."""
    start = time.monotonic()
    for _ in range(PORTION // STEP):
        quick.until(int(daemon.ask(f"publish {STEP} {SIZE}").removeprefix("published ")))
    return time.monotonic() - start


def status(daemon: Daemon) -> Any:
    return json.loads(daemon.ask("status"))


def test_d16_stopped_subscribers_cost_little_and_delay_nobody(daemon: Daemon, stopped: list[subprocess.Popen[bytes]]) -> None:
    with connect(daemon.place(None), None) as sock:
        quick = Quick(sock)
        thread = threading.Thread(target=quick.run, daemon=True)
        thread.start()
        publish(daemon, quick)  # everything is warm after this
        alone, before = publish(daemon, quick), memory(daemon)

        stopped.extend(subscribe_and_stop(daemon) for _ in range(STOPPED))
        together = publish(daemon, quick)
        assert status(daemon)["lagging"] == STOPPED
        together = min(together, publish(daemon, quick))
        cost = memory(daemon) - before

        assert cost / STOPPED < MIB
        assert together < 3 * alone + 1  # it does not wait for anybody; the machine may be busy
        assert quick.texts == 4 * PORTION
        assert status(daemon)["subscribers"] == STOPPED + 1
        sock.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE)


def test_d16_a_woken_subscriber_hears_what_it_held_then_one_gap_then_all_that_follows(
    daemon: Daemon, stopped: list[subprocess.Popen[bytes]]
) -> None:
    process = subscribe_and_stop(daemon)
    stopped.append(process)
    end = int(daemon.ask(f"publish {PORTION} {SIZE}").removeprefix("published "))
    assert status(daemon)["lagging"] == 1

    process.send_signal(signal.SIGCONT)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"\n")
    process.stdin.close()
    messages = [json.loads(process.stdout.readline())]
    while messages[-1]["method"] != "gap":
        messages.append(json.loads(process.stdout.readline()))
    assert messages[-1]["params"]["to"].endswith(f":{end}")
    daemon.ask("publish 3 0")
    messages.extend(json.loads(process.stdout.readline()) for _ in range(3))

    numbers = [Cursor.parse(message["params"]["cursor"]).seq for message in messages]
    told = numbers[: numbers.index(end)]
    assert told == list(range(1, len(told) + 1))
    assert numbers[len(told) :] == [end, end + 1, end + 2, end + 3]
    assert status(daemon)["gaps_sent"] == 1
    assert status(daemon)["lagging"] == 0


def test_d16_a_stopped_subscriber_that_is_killed_is_really_gone(daemon: Daemon, stopped: list[subprocess.Popen[bytes]]) -> None:
    process = subscribe_and_stop(daemon)
    with connect(daemon.place(None), None) as sock:
        quick = Quick(sock)
        thread = threading.Thread(target=quick.run, daemon=True)
        thread.start()
        publish(daemon, quick)
        assert status(daemon)["subscribers"] == 2
        end(process)
        publish(daemon, quick)
        assert (status(daemon)["subscribers"], status(daemon)["lagging"]) == (1, 0)
        sock.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE)

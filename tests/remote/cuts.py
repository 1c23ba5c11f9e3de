"""Cut connections: a subscriber over ssh whose line is cut again and again, each time in another way, while a run talks.

`python tests/remote/cuts.py [N]` cuts N times (200) and prints one line of JSON; `test_cuts.py` does it a few times.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import anyio
import anyio.to_thread

from cueloop_client.api.link import Opener
from cueloop_client.api.stream import Stream
from cueloop_client.calling import with_caller
from cueloop_client.remote import dialing, pump
from cueloop_client.remote.bridge import Beats
from cueloop_client.remote.place import far_place
from cueloop_client.world import World as Around
from cueloop_client.world import real_world
from support.runs import Stage, finished, nothing_left, start
from support.sshd import NAME, Sshd, serving
from support.wire import SECONDS, Wire, wait_for
from support.world import World
from upgrade.traffic import essence

TALKING = """
import itertools
begin()
for number in itertools.count():
    text(f"line {number}")
    if (HERE / "go").exists():
        break
    time.sleep(0.01)
end()
"""
BEATS = Beats(every=0.2, idle=1.0)
"""Much faster than in earnest, where a stalled line would be waited for 50 seconds."""
WAYS = ("ssh", "sshd", "bridge", "both", "to the server", "to the client", "stall")
LEAVE = 2.0
Note = dict[str, Any]


@dataclass
class Told:
    """What was seen: for each way, seconds until nothing of the old connection was left there, and until news came again."""

    gone: dict[str, list[float]] = field(default_factory=lambda: {way: [] for way in WAYS})
    back: dict[str, list[float]] = field(default_factory=lambda: {way: [] for way in WAYS})
    notes: int = 0
    lines: int = 0
    """Lines that the agent wrote."""
    lost: int = 0
    doubled: int = 0
    left: int = 0
    """Processes there after the end."""

    def line(self) -> str:
        """All of it as JSON."""

        def most(times: list[float]) -> dict[str, Any]:
            return {"n": len(times), "p50_s": round(statistics.median(times), 3), "max_s": round(max(times), 3)} if times else {}

        ways = {way: {"gone": most(self.gone[way]), "back": most(self.back[way])} for way in WAYS}
        cuts = sum(map(len, self.gone.values()))
        counts = {"notes": self.notes, "lines": self.lines, "lost": self.lost, "doubled": self.doubled, "left": self.left}
        return json.dumps({"bench": "ssh_cuts", "cuts": cuts, **counts, "ways": ways})


class Net:
    """The network between the machines: it hands on what it gets, until it is told to be worse."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = self._door.getsockname()[1]
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._stalled: set[socket.socket] = set()
        self._all = [self._door]
        self._threads: list[threading.Thread] = []
        self._begin(self._serve)

    def cut(self, way: str) -> None:
        """Cut all connections there are."""
        pairs, self._pairs = self._pairs, []
        for client, server in pairs:
            if way == "stall":
                self._stalled |= {client, server}
            for sock, name in ((server, "to the server"), (client, "to the client")):
                if way in ("both", name):
                    with suppress(OSError):
                        sock.shutdown(socket.SHUT_RDWR if way == "both" else socket.SHUT_WR)

    def close(self) -> None:
        """End whatever still goes through it."""
        for act in ("shutdown", "close"):
            for sock in list(self._all):
                with suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR) if act == "shutdown" else sock.close()
            for thread in self._threads:
                thread.join(SECONDS)

    def _begin(self, act: Callable[..., None], *args: object) -> None:
        self._threads.append(threading.Thread(target=act, args=args, daemon=True))
        self._threads[-1].start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._door.accept()
                server = socket.create_connection(("127.0.0.1", self._port))
                self._pairs.append((client, server))
                self._all += [client, server]
                self._begin(self._copy, client, server)
                self._begin(self._copy, server, client)

    def _copy(self, from_: socket.socket, to: socket.socket) -> None:
        with suppress(OSError):
            while data := from_.recv(65536):
                if from_ not in self._stalled:
                    to.sendall(data)
            to.shutdown(socket.SHUT_WR)


@contextmanager
def far() -> Iterator[tuple[Sshd, Stage, Net]]:
    """The other machine, a repository on it whose agent talks, and a bad network in between."""
    world = World.make()
    try:
        with serving(world) as box:
            net = Net(box.port)
            config = box.config.read_text().replace(f"Port {box.port}", f"Port {net.port}\n  HostKeyAlias [127.0.0.1]:{box.port}")
            box.config.write_text(config.replace("ControlPath", "# ControlPath"))
            stage = Stage.make(world, TALKING)
            with nothing_left(stage):
                yield box, stage, net
            net.close()
    finally:
        world.close()


def cuts(count: int) -> Told:
    """Cut so often and compare what was heard with what the daemon has."""
    before, dialing.BEATS = dialing.BEATS, BEATS
    told = Told()
    try:
        with far() as (box, stage, net):
            daemon = stage.world.start(at_home=True)
            with daemon.connect() as wire:
                anyio.run(partial(_cut, count, box, stage, net, wire, told))
            with suppress(AssertionError):
                wait_for(lambda: not box.bridges(), "the end of all bridges", LEAVE)
            told.left = len(box.bridges())
    finally:
        dialing.BEATS = before
    return told


async def _cut(count: int, box: Sshd, stage: Stage, net: Net, wire: Wire, told: Told) -> None:
    environ = {**box.world.environ, **box.environ}
    root, around = far_place(f"ssh://{NAME}{box.world.repository.path}", Around(**{**vars(real_world("")), "environ": environ}))
    opener = Opener(root, around, may_start=True, seconds=20.0)
    caller = await anyio.to_thread.run_sync(around.caller)
    heard: list[Note] = []
    cut: list[str] = []
    stream = Stream(opener, with_caller(caller, "events.subscribe", {}), None, 20.0, cut.append)
    await stream.open()
    begin = stream.cursor
    run_id = start(wire, stage)

    async def listen() -> None:
        while not heard or heard[-1]["method"] != "run.finished":
            note = await stream.next_note()
            heard.append({"method": note.method, "params": note.params})

    async with anyio.create_task_group() as group:
        group.start_soon(listen)
        for number in range(count):
            await _once(WAYS[number % len(WAYS)], box, net, told, heard, cut)
        stage.make_file("go")
        await anyio.to_thread.run_sync(finished, wire, run_id)
    await stream.aclose()
    _compare(told, heard, _all_since(wire, begin, stage.world.caller))


async def _once(way: str, box: Sshd, net: Net, told: Told, heard: list[Note], cut: list[str]) -> None:
    """One cut, and what came of it."""
    known = len(heard)
    await _until(lambda: len(heard) > known, "news before the cut")
    old, interruptions, began = set(box.bridges()), len(cut), time.monotonic()
    _break(way, box, net)
    await _until(lambda: len(cut) > interruptions, f"the end of the connection ({way})")
    known = len(heard)
    await _until(lambda: not old & set(box.bridges()), f"the end of the old bridge ({way})")
    told.gone[way].append(time.monotonic() - began)
    await _until(lambda: len(heard) > known, f"news after the cut ({way})")
    told.back[way].append(time.monotonic() - began)


def _break(way: str, box: Sshd, net: Net) -> None:
    match way:
        case "ssh":
            pids = [line.process.pid for line in pump._lines]
        case "sshd":
            pids = box.sessions()
        case "bridge":
            pids = box.bridges()
        case _:
            return net.cut(way)
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return None


def _all_since(wire: Wire, begin: str | None, caller: Note) -> list[Note]:
    """What a subscriber hears who was never cut."""
    wire.subscribe(cursor=begin, caller=caller)
    notes = [wire.note()]
    while notes[-1]["method"] != "run.finished":
        notes.append(wire.note())
    return notes


def _compare(told: Told, heard: list[Note], wanted: list[Note]) -> None:
    """Output that lies together may come as one event to who asks late, so it is its lines that are counted."""
    (events, output, last), (all_, said, end) = essence(heard), essence(wanted)
    lines, written = output.split("\n"), said.split("\n")
    told.notes, told.lines = len(heard), len(lines) - 1
    told.doubled = len(events) - len(set(events)) + len(lines) - len(set(lines))
    gaps = sum(note["method"] == "gap" for note in heard)
    told.lost = len(set(all_) - set(events)) + len(set(written) - set(lines)) + gaps
    if told.lost == told.doubled == 0:
        assert (events, lines, last) == (all_, written, end), "another order"
        assert written[:-1] == [f"line {number}" for number in range(len(written) - 1)]


async def _until(is_so: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
    with anyio.move_on_after(seconds):
        while not is_so():
            await anyio.sleep(0.005)
        return
    raise AssertionError(f"{what}: not within {seconds:g} s")


if __name__ == "__main__":
    result = cuts(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
    print(result.line())
    sys.exit(0 if result.lost == result.doubled == result.left == 0 else 1)

"""Lives of a run in processes of their own, each ended by SIGKILL at a chosen place; the record, the outbox and the log are real.

A job is a JSON line on stdin: a folder, a backend, and the place at which the first life ends: its name, and how often it has been
passed before. The answer on stdout says how that ended and what the second life, which nobody kills, left behind. Places are those of
the journal, and before and after each thing that the outbox does. The outbox takes together what waits together, so that lives differ
in how often it flushes and forgets; everything else is passed as often in each.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import anyio

from cueloop_daemon.events import Hub, Journal, Place
from cueloop_daemon.events.log import EventLog
from cueloop_daemon.events.model import Filter
from cueloop_daemon.events.opening import open_log
from cueloop_daemon.runs import queries
from cueloop_daemon.runs.batches import load
from cueloop_daemon.runs.db import RunsPlace
from cueloop_daemon.runs.journal import RunJournal
from cueloop_daemon.runs.lane import DbLane, RunStore
from cueloop_daemon.runs.outbox import Outbox
from cueloop_daemon.runs.state import State
from runs.fakes import NOW, RUN, ending, later
from runs.records import new_run, warned
from runs.test_journal import NUMBER, ORDER, TEXT, Order


class Places:
    """Remembers places, and ends this process at the chosen one."""

    def __init__(self, kill_at: tuple[str, int] | None) -> None:
        self.kill_at = kill_at
        self.names: list[str] = []

    def __call__(self, key: str, point: str) -> None:
        name = f"{key} {point}"
        if (name, self.names.count(name)) == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.names.append(name)


class WatchedHub(Hub):
    places: Places

    def publish(self, event: Any) -> int:
        self.places("publish", "before")
        seq = super().publish(event)
        self.places("publish", "after")
        return seq

    async def flush(self) -> None:
        await super().flush()
        self.places("flush", "after")


class WatchedLane(DbLane):
    places: Places

    async def once(self, change: Any, *, durable: bool = True) -> Any:
        result = await super().once(change, durable=durable)
        if not durable:
            self.places("forget", "after")
        return result


class Outside:
    """Effects as files: an order that is obeyed is a file that is made once, a converging act appends to one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def order(self, wanted: Order, again: bool) -> int:
        with open(self.folder / "asked", "a") as file:
            file.write(f"{wanted.number} {again}\n")
        (self.folder / f"order{wanted.number}").touch()
        return wanted.number

    async def make(self, again: bool) -> str:
        (self.folder / "made").touch()
        return "made"


async def program(state: State, journal: RunJournal, outside: Outside) -> State:
    if state.next == "open":
        await journal.note("now", later(lambda: 1), NUMBER)
        await journal.emit("begun", warned("begun"))
        await journal.converge("made", outside.make, TEXT)
        await journal.step("order", Order(number=journal.order_number()), outside.order, ORDER, NUMBER)
        await journal.emit("ordered", warned("ordered"))
        return state.model_copy(update={"next": "phase"})
    for number in range(3):
        await journal.step(f"{number}", Order(number=journal.order_number()), outside.order, ORDER, NUMBER)
        await journal.emit(f"{number}/said", warned(f"ordered {number}"))
    return ending({})


async def live(folder: Path, places: Places) -> None:
    """One daemon's life, as far as runs go."""
    lane = WatchedLane(RunsPlace(str(folder / "runs.db"), lambda: None))
    lane.places = places
    await lane.open()
    if await lane.read(lambda db: queries.get(db, RUN)) is None:
        await lane.once(lambda db: queries.insert(db, new_run()))
    else:
        await lane.once(lambda db: queries.begin_life(db, RUN))
    hub = WatchedHub(Journal(event_place(folder), lambda: 0.0), lambda audience: b"{}")
    hub.places = places
    outbox = Outbox(lane, hub, lambda: 1, lambda row: None)
    async with anyio.create_task_group() as tasks:
        await tasks.start(hub.run)
        await tasks.start(outbox.run)
        loaded = await lane.read(lambda db: load(db, RUN))
        journal = RunJournal(RunStore(lane, RUN), loaded, lambda: NOW, probe=places)
        journal.committed = outbox.wake
        state = journal.state
        while state.next != "over":
            state = await program(state, journal, Outside(folder))
            await journal.checkpoint(state)
            await outbox.drained()
        await outbox.drained()
        hub.stop()
        tasks.cancel_scope.cancel()
    await lane.close()


def event_place(folder: Path) -> Place:
    return Place(str(folder / "events.db"), lambda: None, "boot-1", lambda: "e1", 1 << 26)


def left(folder: Path) -> dict[str, Any]:
    """What there is after the lives: events by seq, orders obeyed, and the outbox."""
    log: EventLog = open_log(event_place(folder))
    chunk = log.read(0, log.last_seq, Filter())
    log.abandon()
    assert chunk is not None
    told = [json.loads(row.params) for row in chunk.rows]
    return {
        "seqs": [row.seq for row in chunk.rows],
        "told": [params["event"]["message"] if "event" in params else "run.finished" for params in told],
        "asked": (folder / "asked").read_text().splitlines(),
        "orders": len(list(folder.glob("order*"))),
        "epoch": log.opened.epoch,
    }


def forked(folder: Path, backend: str, kill_at: tuple[str, int] | None) -> tuple[int, list[str]]:
    """A life in a child: its exit code, and the places it passed (if it lived)."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            places = Places(kill_at)
            anyio.run(live, folder, places, backend=backend)
            os.write(theirs, json.dumps(places.names).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(theirs)
    _, status = os.waitpid(pid, 0)
    said = b""
    while piece := os.read(ours, 65536):
        said += piece
    os.close(ours)
    return os.waitstatus_to_exitcode(status), json.loads(said or b"[]")


def main() -> None:
    for line in sys.stdin:
        job = json.loads(line)
        folder = Path(job["folder"])
        folder.mkdir()
        code, names = forked(folder, job["backend"], job["kill_at"] and tuple(job["kill_at"]))
        again, _ = forked(folder, job["backend"], None) if code else (0, [])
        print(json.dumps({"code": code, "again": again, "names": names, **left(folder)}), flush=True)


if __name__ == "__main__":
    main()

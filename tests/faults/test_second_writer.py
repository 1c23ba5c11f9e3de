"""Another program renames its own session file into place while we replace or remove ours: its bytes survive, the result says so.

Interleavings are made, not awaited: the other writer acts between two calls of ours, at every single place there is and at pairs
of places. A sample with a real second process follows.
"""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cueloop_daemon.store.etag import etag_of_bytes
from cueloop_daemon.store.history import HistoryEntry
from cueloop_daemon.store.outcomes import Conflict, Missing, Quarantined, Removed, Saved, SavedOver
from cueloop_protocol.identity import process_start_time
from faults.systems import Call, Hooked, Unhurried, without_exchange
from faults.world import World, session

PAIRS = 300
OLD, NEW = session("old"), session("new")
Result = Saved | SavedOver | Conflict | Removed | Missing | Quarantined


@dataclass
class Other:
    """The other program. What it renames over is gone by its own doing."""

    file: Path
    written: list[bytes] = field(default_factory=list)
    overwritten: set[bytes] = field(default_factory=set)

    def write(self) -> None:
        data = session(f"theirs-{len(self.written)}", "RQ-0002")
        temp = self.file.with_name(f"theirs-{len(self.written)}.tmp")
        temp.write_bytes(data)
        if self.file.exists():
            self.overwritten.add(self.file.read_bytes())
        temp.replace(self.file)
        self.written.append(data)

    @property
    def owed(self) -> set[bytes]:
        return set(self.written) - self.overwritten


@dataclass(frozen=True)
class Act:
    """A change of ours, starting from a session `OLD` that we wrote."""

    change: Callable[[World], Result]
    exchange: bool = True

    def run(self, path: Path, moments: tuple[int, ...]) -> tuple[World, Other, Result, list[Call]]:
        world = World(path)
        world.put(OLD)
        other = Other(world.file)

        def before(call: Call) -> None:
            for _ in range(moments.count(call.number)):
                other.write()

        system = Unhurried(before) if self.exchange else without_exchange(before, kind=Unhurried)
        world.system = system
        result = self.change(world)
        calls = list(system.calls)
        system.before = lambda call: None
        return world, other, result, calls


def etag() -> str:
    return etag_of_bytes(OLD)


ACTS = {
    "save during a run": Act(lambda world: world.store.save(NEW, etag(), during_run=True)),
    "save without a run": Act(lambda world: world.store.save(NEW, etag(), during_run=False)),
    "save that keeps the old one": Act(lambda world: world.store.save(NEW, etag(), during_run=False, keep_as="session_declined")),
    "removal during a run": Act(lambda world: world.store.remove(etag(), why="finished", during_run=True)),
    "removal without a run": Act(lambda world: world.store.remove(etag(), why="session_stale", during_run=False)),
    "clear": Act(lambda world: world.store.clear(etag())),
    "quarantine": Act(lambda world: world.store.quarantine(etag())),
}


def named(result: Result) -> tuple[HistoryEntry, ...]:
    """The entries of others' bytes that a result tells of."""
    match result:
        case SavedOver():
            return result.foreign
        case Conflict():
            return result.kept
        case Removed(foreign=True):
            return (result.entry,)
        case _:
            return ()


def check(world: World, other: Other, result: Result) -> None:
    """What must hold after any interleaving."""
    final = world.file.read_bytes() if world.file.exists() else None
    kept = world.kept()
    assert other.owed <= {final, *kept}
    assert world.leftovers() == []
    foreign = {data for data, why in kept.items() if why == "foreign"}
    assert {etag_of_bytes(data) for data in foreign} == {entry.note.etag for entry in named(result)}
    match result:
        case Saved():
            assert final == NEW or final in other.written
        case SavedOver():
            assert final == NEW or final in other.written
        case Conflict(found=found):
            assert final in other.written
            assert found in {etag_of_bytes(data) for data in other.written}
        case Removed():
            assert final is None or final in other.written
        case _:
            assert OLD in {*kept, *world.quarantined()} or OLD in other.overwritten
    assert final != NEW or NEW not in kept
    world.store.recover(process_start_time)
    assert other.owed <= {world.file.read_bytes() if world.file.exists() else None, *world.kept()}


def interleavings(path: Path, act: Act) -> list[tuple[int, ...]]:
    _, _, _, calls = act.run(path, ())
    moments = range(len(calls))
    pairs = list(itertools.combinations_with_replacement(moments, 2))
    return [(), *((one,) for one in moments), *random.Random(len(pairs)).sample(pairs, PAIRS)]


@pytest.mark.parametrize("name", ACTS)
def test_at_every_moment_and_at_pairs_of_moments(tmp_path: Path, name: str) -> None:
    act = ACTS[name]
    results = set()
    for number, moments in enumerate(interleavings(tmp_path / "alone", act)):
        world, other, result, _ = act.run(tmp_path / str(number), moments)
        check(world, other, result)
        results.add((type(result), bool(named(result))))
    assert len(results) > 1


def test_there_are_more_than_a_thousand(tmp_path: Path) -> None:
    assert sum(len(interleavings(tmp_path / str(number), act)) for number, act in enumerate(ACTS.values())) > 1000


@pytest.mark.parametrize("during_run", [True, False])
def test_without_exchange_but_for_the_one_moment(tmp_path: Path, during_run: bool) -> None:
    """Where files cannot be exchanged, the moment between the last look and the rename is the only one that loses."""
    act = Act(lambda world: world.store.save(NEW, etag(), during_run=during_run), exchange=False)
    _, _, _, calls = act.run(tmp_path / "alone", ())
    published = next(call.number for call in calls if call.name == "replace" and call.args[1].endswith("session.jsonc"))
    for number, moments in enumerate(((one,) for one in range(len(calls)) if one != published), start=1):
        world, other, result, _ = act.run(tmp_path / str(number), moments)
        check(world, other, result)
    assert number > 20


def test_a_write_into_the_file_that_came_out_is_kept(tmp_path: Path) -> None:
    """An editor that had the old file open when we replaced it, and writes into it afterwards."""
    world = World(tmp_path)
    world.put(OLD)
    editor = os.open(world.file, os.O_WRONLY)

    def before(call: Call) -> None:
        if call.name == "fsync_folder" and call.path == str(world.cache):
            os.pwrite(editor, session("edited"), 0)

    world.system = Hooked(before)
    result = world.store.save(NEW, etag(), during_run=False)
    os.close(editor)
    assert isinstance(result, SavedOver)
    assert world.file.read_bytes() == NEW
    assert world.kept() == {session("edited"): "foreign"}


def test_a_write_into_ours_while_it_is_taken_back_is_kept(tmp_path: Path) -> None:
    """Theirs goes back; an editor that had opened ours while it stood there writes into it as it goes."""
    world = World(tmp_path)
    world.put(OLD)
    editor: list[int] = []

    def before(call: Call) -> None:
        exchanges = world.system.names.count("exchange")  # type: ignore[attr-defined]
        if call.name == "exchange" and exchanges == 1:
            world.put(session("theirs"))
        elif call.name == "exchange":
            editor.append(os.open(world.file, os.O_WRONLY))
        elif call.name == "fsync_folder" and editor:
            os.pwrite(editor.pop(), session("edited"), 0)

    world.system = Hooked(before)
    result = world.store.save(NEW, etag(), during_run=False)
    assert isinstance(result, Conflict)
    assert [entry.note.etag for entry in result.kept] == [etag_of_bytes(session("edited"))]
    assert (world.file.read_bytes(), world.kept()) == (session("theirs"), {session("edited"): "foreign"})


def test_a_file_that_never_stands_still_is_left_to_the_other(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put(OLD)
    other = Other(world.file)
    world.system = Unhurried(lambda call: other.write() if call.name == "exchange" else None)
    result = world.store.save(NEW, etag(), during_run=False)
    assert isinstance(result, Conflict)
    assert len(other.written) > 50
    assert world.file.read_bytes() in other.written
    assert other.owed <= {world.file.read_bytes(), *world.kept()}
    assert world.leftovers() == []


WRITER = """
import os, sys
folder = sys.argv[1]
for number, line in enumerate(sys.stdin):
    data = b'{"session_id": "process-%d"}' % number
    temp = os.path.join(folder, "process.tmp")
    with open(temp, "wb") as file:
        file.write(data)
    for _ in range(int(line)):
        pass
    os.rename(temp, os.path.join(folder, "session.jsonc"))
    print(number, flush=True)
"""


def test_a_real_second_process(tmp_path: Path) -> None:
    """Both start at once, the other one after a wait that sweeps over the length of a save."""
    world = World(tmp_path)
    expected = world.put(OLD)
    kinds = set()
    command = [sys.executable, "-c", WRITER, str(world.cache)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        for number in range(150):
            writer.stdin.write(f"{number * 500}\n")
            writer.stdin.flush()
            result = world.store.save(session(f"ours-{number}"), expected, during_run=True)
            assert isinstance(result, Saved | SavedOver)
            assert int(writer.stdout.readline()) == number
            kinds.add(type(result))
            theirs = b'{"session_id": "process-%d"}' % number
            assert theirs in {world.file.read_bytes(), *world.kept()}
            expected = result.etag
        writer.stdin.close()
    assert kinds
    assert world.leftovers() == []

"""SIGKILL at each step of a change of the session: the file is the old or the new one, whole; nothing of anybody's is lost."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from cueloop_protocol.identity import process_start_time
from faults.systems import Unhurried
from faults.world import World, session

OLD, NEW, FOREIGN = session("old"), session("new"), session("foreign")


@dataclass(frozen=True)
class Change:
    """A change of the session. `there` is the file before it, `expected` what the store wrote last."""

    do: str
    there: bytes | None
    expected: bytes | None
    run: bool = True
    keep_as: str | None = None
    without_exchange: bool = False

    @property
    def allowed(self) -> set[bytes | None]:
        """What the file may be after a kill."""
        return {self.there, NEW} if self.do == "save" else {self.there, None}

    @property
    def precious(self) -> set[bytes]:
        """What must exist somewhere afterwards, whatever happens."""
        dropped = self.do == "save" and self.keep_as is None and self.there == self.expected
        return {self.there} if self.there is not None and not dropped else set()


CHANGES = {
    "first save": Change("save", None, None, run=False),
    "next save": Change("save", OLD, OLD),
    "save that keeps the old one": Change("save", OLD, OLD, keep_as="session_declined"),
    "save over another program's": Change("save", FOREIGN, OLD),
    "save of a file that was deleted": Change("save", None, OLD),
    "save without exchange": Change("save", OLD, OLD, without_exchange=True),
    "save over another program's without exchange": Change("save", FOREIGN, OLD, without_exchange=True),
    "removal": Change("remove", OLD, OLD),
    "removal of another program's": Change("remove", FOREIGN, OLD),
    "removal without exchange": Change("remove", OLD, OLD, without_exchange=True),
    "quarantine": Change("quarantine", b"{torn", b"{torn", run=False),
}


@dataclass(frozen=True)
class Ending:
    """How the child ended: -9 or 0, and what it said before."""

    code: int
    result: str
    calls: int


class Killer:
    """Changes a session in child processes that end themselves."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, path: Path, change: Change, kill_at: int) -> Ending:
        fields = {key: value.decode() if isinstance(value, bytes) else value for key, value in asdict(change).items()}
        job = {**fields, "path": str(path), "kill_at": kill_at, "data": NEW.decode()}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        result, _, calls = answer["said"].partition(" ")
        return Ending(answer["code"], result, int(calls or 0))


@pytest.fixture(scope="module")
def killer() -> Iterator[Killer]:
    script = Path(__file__).with_name("killer.py")
    with subprocess.Popen([sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Killer(process)
        finally:
            process.kill()


def prepared(path: Path, change: Change) -> World:
    world = World(path)
    if change.there is not None:
        world.put(change.there)
    return world


def bytes_at(file: Path) -> bytes | None:
    return file.read_bytes() if file.exists() else None


def everywhere(world: World) -> set[bytes]:
    return {path.read_bytes() for path in world.cache.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", CHANGES)
def test_kill_at_every_step(tmp_path: Path, killer: Killer, name: str) -> None:
    """Also A07, F02: after each kill the next start sweeps, loses nothing, and the next save works at once."""
    change = CHANGES[name]
    whole = killer.run(prepared(tmp_path / "whole", change).path, change, -1)
    assert whole.code == 0
    assert whole.calls > 10, whole.result
    seen: set[bytes | None] = set()
    for step in range(whole.calls):
        world = prepared(tmp_path / str(step), change)
        ending = killer.run(world.path, change, step)
        assert (ending.code, ending.result) == (-signal.SIGKILL, ""), step
        found = bytes_at(world.file)
        seen.add(found)
        assert found in change.allowed, step
        assert change.precious <= everywhere(world), step
        world.system = Unhurried()
        world.store.recover(process_start_time)
        assert world.leftovers() == [], step
        assert bytes_at(world.file) in change.allowed, step
        assert change.precious <= {bytes_at(world.file), *world.kept(), *world.quarantined()}, step
        world.store.save(session("later"), None, during_run=True)
        assert world.file.read_bytes() == session("later")
    assert seen == change.allowed


@pytest.mark.parametrize("name", [name for name, change in CHANGES.items() if change.do == "save"])
def test_an_acknowledged_write_is_there(tmp_path: Path, killer: Killer, name: str) -> None:
    world = prepared(tmp_path, CHANGES[name])
    ending = killer.run(world.path, CHANGES[name], -1)
    assert ending.result in ("Saved", "SavedOver")
    assert json.loads(world.file.read_bytes())["session_id"] == "new"
    assert world.leftovers() == []


def test_a07_a_hundred_dead_writers_leave_nothing(tmp_path: Path, killer: Killer) -> None:
    """A07: our own leftovers are swept, other programs' are not, and none is taken for a session."""
    change = CHANGES["next save"]
    world = prepared(tmp_path, change)
    others = [world.cache / name for name in ("session.jsonc.tmp", "tmpAB12", "session.jsonc___jb_tmp___", "4913")]
    for other in others:
        other.write_bytes(b"not ours")
    step = next(step for step in range(100) if killer.run(world.path, change, step).code and len(world.leftovers()) == 1)
    for _ in range(99):
        assert killer.run(world.path, change, step).code == -signal.SIGKILL
    assert len(world.leftovers()) == 100
    world.store.recover(process_start_time)
    assert world.leftovers() == []
    assert world.file.read_bytes() == OLD
    assert [other.read_bytes() for other in others] == [b"not ours"] * 4
    assert world.kept() == {}


def test_a_living_writers_temporary_file_stays(tmp_path: Path) -> None:
    world = World(tmp_path)
    mine = world.cache / f".session.jsonc.cueloopd-{world.author.tag}-0.tmp"
    mine.write_bytes(b"being written")
    world.store.recover(process_start_time)
    assert mine.exists()
    reused = world.cache / f".session.jsonc.cueloopd-{world.author.pid}-1-0.tmp"
    reused.write_bytes(b"of an earlier process with this number")
    world.store.recover(process_start_time)
    assert (mine.exists(), reused.exists()) == (True, False)

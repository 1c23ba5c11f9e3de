"""A change of the session that the file system refuses: nothing of anybody's is lost, nothing is claimed, the next one works."""

from __future__ import annotations

import errno
import itertools
import os
import subprocess
from pathlib import Path

import pytest

from cueloop_daemon.store.etag import etag_of_bytes
from cueloop_daemon.store.not_writable import NotWritable
from cueloop_daemon.store.outcomes import Conflict, Missing, OwnershipLost, Saved, SavedOver, SessionRefused
from cueloop_daemon.store.system import System
from faults.systems import CALLS, Call, Hooked, Unhurried, failing, failing_where
from faults.test_second_writer import ACTS, NEW, OLD, etag
from faults.world import World, session

FOREIGN = session("foreign")


def calls_of(act: str, path: Path, there: bytes = OLD) -> list[Call]:
    world = World(path, Unhurried())
    world.put(there)
    ACTS[act].change(world)
    assert isinstance(world.system, Hooked)
    return list(world.system.calls)


def everything(world: World) -> set[bytes]:
    return {world.file.read_bytes() if world.file.exists() else b"", *world.kept(), *world.quarantined()}


def refusal(world: World, act: str) -> NotWritable | None:
    try:
        ACTS[act].change(world)
    except NotWritable as exc:
        return exc
    return None


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("there", [OLD, FOREIGN], ids=["ours", "theirs"])
@pytest.mark.parametrize("act", ACTS)
def test_a04_any_call_may_fail(tmp_path: Path, act: str, there: bytes, code: int) -> None:
    """A04: the error is typed, the file old or new and whole, no temporary file stays, and the next save works."""
    refused = 0
    for step, call in enumerate(calls_of(act, tmp_path / "whole", there)):
        world = World(tmp_path / str(step), failing(step, code))
        world.put(there)
        error = refusal(world, act)
        if error is not None:
            refused += 1
            assert error.path in error.message
            assert error.path.startswith(str(world.path / ".cueloop"))
            assert error.remedy
            assert act.startswith("save") or world.file.read_bytes() == there, (step, call)
        world.system = Unhurried()
        if call.name != "unlink":  # where removing is what fails, only the next start can help
            assert world.leftovers() == [], (step, call)
        world.store.recover(lambda pid: None)
        assert world.leftovers() == [], (step, call)
        found = everything(world)
        assert there in found or (act.startswith("save") and there == OLD and NEW in found), (step, call)
        assert NEW not in world.kept(), (step, call)
        result = world.store.save(session("next"), etag(), during_run=True)
        assert isinstance(result, Saved | SavedOver)
        assert world.file.read_bytes() == session("next")
    assert refused >= 3


def test_a04_a_full_disk_changes_nothing_and_says_so(tmp_path: Path) -> None:
    """A04, without a file system of its own: the write takes half of the bytes, then there is no space."""
    world = World(tmp_path)
    world.put(OLD)
    world.system = failing_where(lambda call: call.name == "write", errno.ENOSPC)
    with pytest.raises(NotWritable) as caught:
        world.store.save(NEW, etag(), during_run=True)
    assert caught.value.message == f"Cannot write {world.file}: the disk is full."
    assert caught.value.remedy == "Free some space and try again."
    assert (caught.value.code, caught.value.errno) == ("unknown", errno.ENOSPC)
    assert sorted(os.listdir(world.cache)) == ["session.jsonc"]
    world.system = System()
    assert world.store.save(NEW, etag(), during_run=True) == Saved(etag_of_bytes(NEW))


def mounted(folder: Path) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    try:
        return os.getuid() == 0 and subprocess.run(command, check=False, capture_output=True, timeout=10).returncode == 0
    except OSError:
        return False


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def test_a04_a_really_full_disk(tmp_path: Path) -> None:
    """A04 on a tmpfs of 64 KiB where one may be mounted, else with every write refused as it would."""
    world = World(tmp_path)
    real = mounted(world.cache)
    try:
        world.put(OLD)
        filler = world.cache / "filler"
        if real:
            with pytest.raises(OSError, match="No space left"):
                fill(filler)
        else:
            world.system = failing_where(lambda call: call.name == "write", errno.ENOSPC)
        with pytest.raises(NotWritable, match="the disk is full"):
            world.store.save(NEW, etag(), during_run=True)
        assert world.file.read_bytes() == OLD
        assert world.leftovers() == []
        filler.unlink(missing_ok=True)
        world.system = System()
        assert world.store.save(NEW, etag(), during_run=True) == Saved(etag_of_bytes(NEW))
        assert world.file.read_bytes() == NEW
    finally:
        if real:
            subprocess.run(["umount", str(world.cache)], check=True, timeout=10)


def test_a_save_that_fails_when_it_is_already_in_place_is_known_as_ours(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put(OLD)
    store = world.store
    broken = failing_where(lambda call: call.name == "fsync_folder" and call.path == str(world.cache), errno.EIO)
    world.system = broken
    store = world.store
    with pytest.raises(NotWritable):
        store.save(NEW, etag(), during_run=False)
    assert world.file.read_bytes() == NEW
    broken.before = lambda call: None
    assert store.save(session("next"), etag(), during_run=False) == Saved(etag_of_bytes(session("next")))
    assert world.kept() == {}


def test_foreign_bytes_that_cannot_be_kept_go_back(tmp_path: Path) -> None:
    """During a run ours stands, but not at the price of theirs."""
    world = World(tmp_path)
    world.put(FOREIGN)
    world.system = failing_where(lambda call: call.name == "mkdir", errno.ENOSPC)
    with pytest.raises(NotWritable, match="the disk is full"):
        world.store.save(NEW, etag(), during_run=True)
    assert world.file.read_bytes() == FOREIGN
    assert world.leftovers() == []


def test_foreign_bytes_that_cannot_go_back_are_kept(tmp_path: Path) -> None:
    """The disk fails at the second exchange: an error, but neither file is lost."""
    world = World(tmp_path)
    world.put(OLD)
    exchanges = itertools.count(1)

    def before(call: Call) -> None:
        if call.name == "exchange":
            number = next(exchanges)
            if number == 1:
                world.put(FOREIGN)
            if number == 2:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

    world.system = Hooked(before)
    store = world.store
    with pytest.raises(NotWritable, match="input/output error"):
        store.save(NEW, etag(), during_run=False)
    assert (world.file.read_bytes(), world.kept()) == (NEW, {FOREIGN: "foreign"})
    assert world.leftovers() == []
    assert store.save(session("next"), etag(), during_run=False) == Saved(etag_of_bytes(session("next")))


def test_when_nothing_can_be_removed_or_kept_the_next_start_does_it(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put(OLD)

    def before(call: Call) -> None:
        if call.name == "exchange":
            world.put(FOREIGN)
        elif call.path.endswith(".swap") and "exchange" in hooked.names:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    world.system = hooked = Hooked(before)
    with pytest.raises(NotWritable):
        world.store.save(NEW, etag(), during_run=False)
    assert len(world.leftovers()) == 1
    world.system = System()
    assert [entry.note.why for entry in world.store.recover(lambda pid: None)] == ["left_behind"]
    assert (world.file.read_bytes(), world.kept()) == (NEW, {FOREIGN: "left_behind"})
    assert world.leftovers() == []


def test_a_corrupt_file_that_cannot_be_quarantined_stays(tmp_path: Path) -> None:
    world = World(tmp_path)
    corrupt = world.put(b"{torn")
    (world.cache / "session-quarantine").symlink_to(tmp_path)
    with pytest.raises(NotWritable, match="not a folder but a link"):
        world.store.quarantine(corrupt)
    assert world.file.read_bytes() == b"{torn"
    assert world.kept() == {}
    assert list(tmp_path.glob("session*")) == []


@pytest.mark.parametrize("act", ACTS)
def test_without_the_lock_nothing_is_touched(tmp_path: Path, act: str) -> None:
    world = World(tmp_path, owned=False)
    world.put(OLD)
    with pytest.raises(OwnershipLost):
        ACTS[act].change(world)
    assert sorted(os.listdir(world.cache)) == ["session.jsonc"]


def test_every_call_of_a_save_is_watched() -> None:
    """The steps that these tests stop at are those of `System`; a method added there is one more."""
    assert {"write", "fsync", "fsync_folder", "exchange", "rename_new", "replace", "unlink", "link"} <= set(CALLS)
    for name in CALLS:
        assert getattr(Hooked, name) is not getattr(System, name)


def test_refusals_and_conflicts_touch_nothing(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put(FOREIGN)
    world.system = Hooked()
    assert world.store.remove(etag(), why="session_stale", during_run=False) == Conflict(etag_of_bytes(FOREIGN))
    assert world.store.quarantine(etag()) == Conflict(etag_of_bytes(FOREIGN))
    world.file.unlink()
    assert world.store.clear(etag()) == Missing()
    world.file.mkdir()
    with pytest.raises(SessionRefused):
        world.store.clear(etag())
    assert set(world.system.names) <= {"lstat", "open", "fstat", "pread", "close"}

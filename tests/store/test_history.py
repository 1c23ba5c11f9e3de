"""The history: whole bytes, a note beside, the last two hundred, and every crash in between."""

from __future__ import annotations

import errno
import json
import os
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from cueloop_daemon.store.etag import etag_of_bytes
from cueloop_daemon.store.exchange import Held, hold
from cueloop_daemon.store.history import History, HistoryEntry, Note
from cueloop_daemon.store.system import System
from faults.systems import Hooked, Unhurried, failing_where, without_exchange
from faults.world import START, World, this_process


def note(data: bytes, why: str = "session_declined", when: datetime = START) -> Note:
    return Note(when, why, etag_of_bytes(data), "RQ-0001")


def history(world: World, kept: int = 200) -> History:
    return History(world.root, world.system, this_process(), os.getuid(), kept)


def folder(world: World) -> Path:
    return world.cache / "cueloopd" / "history"


def take(world: World, data: bytes, kept: int = 200, when: datetime = START) -> HistoryEntry:
    world.put(data)
    return history(world, kept).take(str(world.file), note(data, when=when))


def test_bytes_and_note_stand_side_by_side(tmp_path: Path) -> None:
    world = World(tmp_path)
    data = b"\xff\x00 not even text"
    entry = take(world, data, when=START.astimezone(timezone(timedelta(hours=8))))
    assert entry == HistoryEntry(1, f"{folder(world)}/00000001.jsonc", note(data))
    assert not world.file.exists()
    assert Path(entry.path).read_bytes() == data
    written = json.loads((folder(world) / "00000001.json").read_bytes())
    expected = {"when": "2026-02-07T10:00:00+00:00", "why": "session_declined", "etag": etag_of_bytes(data), "task_id": "RQ-0001"}
    assert written == expected
    assert history(world).entries() == (entry,)
    assert sorted(os.listdir(world.cache / "cueloopd")) == [".gitignore", "history"]
    assert folder(world).stat().st_mode & 0o777 == 0o700


def test_nothing_yet(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert history(world).entries() == ()
    assert os.listdir(world.cache) == []


def test_the_newest_stay_whatever_the_clock_does(tmp_path: Path) -> None:
    world = World(tmp_path, Unhurried())
    for number in range(12):
        take(world, b"%d" % number, kept=5, when=START - timedelta(days=number))
    entries = history(world).entries()
    assert [Path(entry.path).read_bytes() for entry in entries] == [b"11", b"10", b"9", b"8", b"7"]
    assert len(os.listdir(folder(world))) == 10


def test_two_hundred_are_kept(tmp_path: Path) -> None:
    world = World(tmp_path, Unhurried())
    for number in range(203):
        take(world, b"%d" % number)
    assert [entry.number for entry in history(world).entries()] == list(range(203, 3, -1))


def test_a_number_is_not_used_again_after_pruning(tmp_path: Path) -> None:
    world = World(tmp_path)
    for data in (b"a", b"b", b"c"):
        take(world, data, kept=1)
    assert [entry.number for entry in history(world).entries()] == [3]
    assert take(world, b"d", kept=1).number == 4


@pytest.mark.parametrize("damage", ["missing", "torn", "list", "no offset", "wrong types", "deep"])
def test_bytes_without_a_good_note_are_listed(tmp_path: Path, damage: str) -> None:
    world = World(tmp_path)
    entry = take(world, b"data")
    beside = folder(world) / "00000001.json"
    good = json.loads(beside.read_bytes())
    texts = {
        "torn": beside.read_text()[:-20],
        "list": "[1]",
        "no offset": json.dumps({**good, "when": "2026-02-07T10:00:00"}),
        "wrong types": json.dumps({**good, "why": 1}),
        "deep": "[" * 100_000,
    }
    beside.unlink() if damage == "missing" else beside.write_text(texts[damage])
    os.utime(folder(world) / "00000001.jsonc", (0, 0))
    (found,) = history(world).entries()
    assert found == HistoryEntry(1, entry.path, Note(datetime(1970, 1, 1, tzinfo=UTC), "unknown", etag_of_bytes(b"data")))


def test_other_files_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    world = World(tmp_path)
    take(world, b"a", kept=1)
    (folder(world) / "notes.txt").write_text("mine")
    (folder(world) / "1.jsonc").write_text("mine")
    take(world, b"b", kept=1)
    assert sorted(os.listdir(folder(world))) == ["00000002.json", "00000002.jsonc", "1.jsonc", "notes.txt"]


def test_a_number_taken_in_between_is_passed_over(tmp_path: Path) -> None:
    world = World(tmp_path)
    take(world, b"a")

    class Crowded(System):
        def rename_new(self, source: str, target: str) -> None:
            if target.endswith("00000002.json"):
                Path(target).write_text("{}")
            super().rename_new(source, target)

    world.system = Crowded()
    assert take(world, b"b").number == 3
    assert world.leftovers() == []


def test_no_number_is_free(tmp_path: Path) -> None:
    world = World(tmp_path)

    class Crowded(System):
        def rename_new(self, source: str, target: str) -> None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)

    world.system = Crowded()
    with pytest.raises(FileExistsError):
        take(world, b"data")
    assert world.file.read_bytes() == b"data"
    assert os.listdir(folder(world)) == []


def test_bytes_that_appear_under_a_claimed_number_are_not_replaced(tmp_path: Path) -> None:
    world = World(tmp_path)

    def before(target: str) -> None:
        if target.endswith("00000001.jsonc"):
            Path(target).write_bytes(b"theirs")

    world.system = Hooked(lambda call: before(call.args[-1]) if call.name == "rename_new" else None)
    with pytest.raises(FileExistsError):
        take(world, b"data")
    assert world.file.read_bytes() == b"data"
    assert (folder(world) / "00000001.jsonc").read_bytes() == b"theirs"


def test_an_unreadable_note_is_made_up(tmp_path: Path) -> None:
    world = World(tmp_path)
    take(world, b"data")
    world.system = failing_where(lambda call: call.path.endswith(".json"), errno.EIO)
    assert [entry.note.why for entry in history(world).entries()] == ["unknown"]


def test_copy_keeps_an_open_file(tmp_path: Path) -> None:
    world = World(tmp_path)
    data = bytes(range(256)) * 9000
    world.put(data)
    with hold(System(), str(world.file)) as held:
        assert isinstance(held, Held)
        world.file.unlink()
        entry = history(world).copy(held, note(data))
    assert Path(entry.path).read_bytes() == data
    assert world.leftovers() == []


def test_a_copy_that_fails_leaves_nothing(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put(b"data")
    take(world, b"first")
    world.put(b"data")
    with hold(System(), str(world.file)) as held:
        assert isinstance(held, Held)
        world.system = failing_where(lambda call: call.name == "replace", errno.ENOSPC)
        with pytest.raises(OSError, match="No space"):
            history(world).copy(held, note(b"data"))
    assert sorted(os.listdir(folder(world))) == ["00000001.json", "00000001.jsonc"]


@pytest.mark.parametrize("system", [System(), without_exchange()], ids=["exchange", "no exchange"])
class TestDoubt:
    """`begin` takes a file before it is known whose it is."""

    def test_settle(self, tmp_path: Path, system: System) -> None:
        world = World(tmp_path, system)
        world.put(b"data")
        number = history(world).begin(str(world.file), note(b"data"))
        assert Path(history(world).bytes_path(number)).read_bytes() == b"data"
        assert history(world).settle(number, note(b"data", "cleared")).note.why == "cleared"
        assert sorted(os.listdir(folder(world))) == ["00000001.json", "00000001.jsonc"]

    def test_give_back(self, tmp_path: Path, system: System) -> None:
        world = World(tmp_path, system)
        world.put(b"data")
        number = history(world).begin(str(world.file), note(b"data"))
        assert history(world).give_back(number, str(world.file))
        assert world.file.read_bytes() == b"data"
        assert os.listdir(folder(world)) == []

    def test_give_back_to_a_place_that_is_taken(self, tmp_path: Path, system: System) -> None:
        world = World(tmp_path, system)
        world.put(b"data")
        number = history(world).begin(str(world.file), note(b"data"))
        world.put(b"newer")
        assert not history(world).give_back(number, str(world.file))
        assert world.file.read_bytes() == b"newer"
        assert Path(history(world).bytes_path(number)).read_bytes() == b"data"

    def test_nothing_to_take(self, tmp_path: Path, system: System) -> None:
        world = World(tmp_path, system)
        with pytest.raises(FileNotFoundError):
            history(world).begin(str(world.file), note(b"data"))
        assert os.listdir(folder(world)) == []


class TestRecovery:
    """A crash after `begin`."""

    def recover(self, world: World) -> tuple[HistoryEntry, ...]:
        return history(world).recover(str(world.file), START)

    def test_the_bytes_that_were_meant_stay_in_the_history(self, tmp_path: Path) -> None:
        world = World(tmp_path)
        world.put(b"data")
        history(world).begin(str(world.file), note(b"data"))
        assert self.recover(world) == ()
        assert world.kept() == {b"data": "session_declined"}
        assert not world.file.exists()

    def test_others_go_back(self, tmp_path: Path) -> None:
        world = World(tmp_path)
        world.put(b"theirs")
        history(world).begin(str(world.file), note(b"ours"))
        assert self.recover(world) == ()
        assert world.file.read_bytes() == b"theirs"
        assert world.kept() == {}

    def test_others_stay_where_there_is_a_newer_file(self, tmp_path: Path) -> None:
        world = World(tmp_path)
        world.put(b"theirs")
        history(world).begin(str(world.file), note(b"ours"))
        world.put(b"newer")
        assert [entry.note.why for entry in self.recover(world)] == ["foreign"]
        assert world.kept() == {b"theirs": "foreign"}
        assert world.file.read_bytes() == b"newer"

    def test_a_note_before_its_bytes_were_moved_is_forgotten(self, tmp_path: Path) -> None:
        world = World(tmp_path)
        world.put(b"data")
        history(world).begin(str(world.file), note(b"data"))
        os.rename(folder(world) / "00000001.jsonc", world.file)
        assert self.recover(world) == ()
        assert os.listdir(folder(world)) == []
        assert world.file.read_bytes() == b"data"

    def test_what_was_settled_just_before_the_crash_stays(self, tmp_path: Path) -> None:
        world = World(tmp_path)
        world.put(b"theirs")
        history(world).begin(str(world.file), note(b"ours"))
        world.system = failing_where(lambda call: call.name == "unlink", errno.EIO)
        history(world).settle(1, note(b"theirs", "foreign"))
        assert (folder(world) / "00000001.pending").exists()
        world.system = System()
        assert self.recover(world) == ()
        assert world.kept() == {b"theirs": "foreign"}
        assert not world.file.exists()

    def test_a_lost_note_gives_the_file_back(self, tmp_path: Path) -> None:
        world = World(tmp_path)
        world.put(b"data")
        history(world).begin(str(world.file), note(b"data"))
        (folder(world) / "00000001.pending").write_bytes(b"")
        assert self.recover(world) == ()
        assert world.file.read_bytes() == b"data"

"""When the epoch goes on and when it does not, and that nothing of a file that we cannot use is lost."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cueloop_daemon.events.model import LONGEST_PATH, Group, Row
from cueloop_daemon.events.opening import Before, open_log
from cueloop_daemon.events.revisions import BLOCK, Revisions
from cueloop_daemon.events.sqlite import VERSION, mark_over
from cueloop_daemon.store.sqlite import KEPT_ASIDE, DbTooNew, DbUnwritable
from events.hubs import EVERYTHING, World, contents

ROWS = tuple(Row(seq, "event", "warning", None, None, b'{"n":%d}' % seq) for seq in range(1, 101))


def fill(world: World) -> str:
    """A log of a hundred events in our folder, closed cleanly; its epoch."""
    log = open_log(world.place)
    log.append(Group(ROWS))
    log.close(revision=5)
    return log.opened.epoch


def fill_and_kill(world: World, name: str = "killed") -> tuple[World, str]:
    """The same, but the process died without closing anything."""
    log = open_log(world.place)
    log.append(Group(ROWS))
    killed = world.as_after_a_kill(name)
    log.abandon()
    return killed, log.opened.epoch


def epoch_and_end(world: World) -> tuple[str, int]:
    log = open_log(world.place)
    log.abandon()
    return log.opened.epoch, log.last_seq


def test_a_new_log_has_an_epoch_and_no_events_and_is_nobody_elses_to_read(world: World) -> None:
    log = open_log(world.place)
    assert (log.opened.epoch, log.opened.base, log.last_seq, log.oldest) == ("epoch1", 0, 0, 1)
    modes = {entry.name: stat.S_IMODE(entry.stat().st_mode) for entry in world.folder.iterdir()}
    log.abandon()
    assert modes == {"events.db": 0o600, "events.db-wal": 0o600}


def test_after_a_clean_end_the_epoch_goes_on_even_over_a_reboot(world: World) -> None:
    epoch = fill(world)
    assert epoch_and_end(replace(world, boot_id="boot-2")) == (epoch, 100)


def test_after_a_kill_in_the_same_boot_the_epoch_goes_on_with_every_event(world: World) -> None:
    killed, epoch = fill_and_kill(world)
    log = open_log(killed.place)
    chunk = log.read(0, 100, EVERYTHING)
    log.abandon()
    assert (log.opened.epoch, log.last_seq) == (epoch, 100)
    assert chunk is not None
    assert chunk.rows == ROWS


@pytest.mark.parametrize("boot_id", ["boot-2", ""])
def test_after_a_kill_and_another_or_an_unknown_boot_the_end_may_be_lost(world: World, boot_id: str) -> None:
    killed, epoch = fill_and_kill(world)
    found = epoch_and_end(replace(killed, boot_id=boot_id))
    assert found == ("epoch2", 100)
    assert found[0] != epoch


def test_two_unknown_boots_are_not_the_same_boot(world: World) -> None:
    killed, epoch = fill_and_kill(replace(world, boot_id=""))
    assert epoch_and_end(killed)[0] != epoch


def test_the_beginning_and_the_end_are_on_disk_and_commits_in_between_are_quick(world: World) -> None:
    """A power cut must not bring back the clean end of the time before, nor take away the one that was said."""
    levels: list[int] = []

    class Watched(sqlite3.Connection):
        def execute(self, sql: str, *rest: Any) -> sqlite3.Cursor:
            if sql == "COMMIT":
                levels.append(super().execute("PRAGMA synchronous").fetchone()[0])
            return super().execute(sql, *rest)

    def connect(path: str, how: str) -> sqlite3.Connection:
        return sqlite3.connect(f"file:{path}?{how}", uri=True, isolation_level=None, factory=Watched)

    normal, full = 1, 2
    log = open_log(replace(world.place, connect=connect))
    log.append(Group(ROWS))
    log.close(0)
    assert levels == [full, normal, full]


def test_a_clean_end_counts_once(world: World) -> None:
    """Opened again and killed, with a reboot: the clean end of the time before says nothing about this one."""
    fill(world)
    killed, epoch = fill_and_kill(world)
    assert epoch_and_end(replace(killed, boot_id="boot-2"))[0] != epoch


def test_rows_keep_their_epoch_when_it_changes(world: World) -> None:
    killed, epoch = fill_and_kill(world)
    log = open_log(replace(killed, boot_id="boot-2").place)
    log.append(Group((Row(101, "event", None, None, None, b"{}"),)))
    log.close(0)
    with sqlite3.connect(killed.path) as reader:
        found = reader.execute("SELECT epoch, count(*) FROM events GROUP BY epoch ORDER BY min(seq)").fetchall()
    reader.close()
    assert found == [(epoch, 100), (log.opened.epoch, 1)]
    assert log.opened.base == 100


def test_a_write_ahead_log_that_was_removed_may_have_had_the_end(world: World) -> None:
    killed, epoch = fill_and_kill(world)
    (killed.folder / "events.db-wal").unlink()
    assert epoch_and_end(killed)[0] != epoch


def test_a_log_whose_events_went_on_without_it_is_over_and_says_so_once(world: World) -> None:
    epoch = fill(world)
    mark_over(str(world.path))
    second = epoch_and_end(world)
    assert second[0] != epoch
    assert "events.db-over" not in contents(world.folder)


def test_a_log_opened_again_by_the_same_process_goes_on_after_what_it_told(world: World) -> None:
    epoch = fill(world)
    log = open_log(world.place, Before(seq=250, revision=9000))
    log.abandon()
    assert log.opened.epoch != epoch
    assert (log.opened.base, log.last_seq, log.opened.revision) == (250, 250, 9000)


def test_revisions_rise_over_clean_ends_by_one_and_over_kills_past_the_reserve(world: World) -> None:
    fill(world)
    log = open_log(world.place)
    revisions = Revisions(log.opened.revision)
    assert revisions.next() == 6
    told = [revisions.next() for _ in range(BLOCK // 2 - 1)]
    assert revisions.to_reserve() is not None
    killed = world.as_after_a_kill("killed")
    log.abandon()
    again = open_log(killed.place)
    again.abandon()
    assert Revisions(again.opened.revision).next() > told[-1]


def test_a_reserve_is_asked_for_before_the_old_one_is_used_up() -> None:
    revisions = Revisions(10)
    floor = 10 + BLOCK
    for _ in range(BLOCK * 5):
        assert revisions.next() <= floor
        if (new := revisions.to_reserve()) is not None:
            assert revisions.current < floor
            assert revisions.to_reserve() is None
            floor = new


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def to_zero(path: Path) -> None:
    os.truncate(path, 0)


def fill_with_garbage(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 64)


def cut_the_header(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"\0" * 100)


def wreck_the_first_table(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 12288)


def of_another_program(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE photos (name)")
    other.close()


def other_tables(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("CREATE TRIGGER evil AFTER INSERT ON events BEGIN DELETE FROM meta; END")
    other.close()


def impossible_numbers(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("UPDATE meta SET value = 9223372036854775807 WHERE key = 'base'")
    other.close()


def impossible_epoch(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("UPDATE meta SET value = 'a:b' WHERE key = 'epoch'")
    other.close()


def no_epoch(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("DELETE FROM meta")
    other.close()


DAMAGES = [
    truncate,
    to_zero,
    fill_with_garbage,
    cut_the_header,
    wreck_the_first_table,
    of_another_program,
    other_tables,
    impossible_numbers,
    impossible_epoch,
    no_epoch,
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_file_is_moved_aside_byte_for_byte_and_a_new_epoch_begins(world: World, damage: Callable[[Path], None]) -> None:
    epoch = fill(world)
    damage(world.path)
    before = world.path.read_bytes()

    log = open_log(world.place)
    log.append(Group(ROWS[:1]))
    log.close(0)

    assert log.opened.epoch != epoch
    assert log.opened.base == 0
    assert log.opened.moved_to == f"{world.path}.damaged-1"
    assert (world.folder / "events.db.damaged-1").read_bytes() == before


def test_a_damaged_file_of_a_killed_process_goes_aside_with_its_write_ahead_log(world: World) -> None:
    epoch = fill(world)
    log = open_log(world.place)
    killed = world.as_after_a_kill("killed")
    log.abandon()
    fill_with_garbage(killed.path)
    before = contents(killed.folder)
    assert epoch_and_end(killed)[0] != epoch
    after = contents(killed.folder)
    assert after["events.db.damaged-1"] == before["events.db"]
    assert after["events.db.damaged-1-wal"] == before["events.db-wal"]


def test_a_write_ahead_log_without_its_file_is_not_taken_for_a_new_ones(world: World) -> None:
    killed, _ = fill_and_kill(world)
    killed.path.unlink()
    wal = (killed.folder / "events.db-wal").read_bytes()
    assert epoch_and_end(killed) == ("epoch2", 0)
    assert (killed.folder / "events.db.damaged-1-wal").read_bytes() == wal


def as_folder(path: Path) -> None:
    path.mkdir()
    (path / "inside").write_text("kept")


def as_link(path: Path) -> None:
    (path.parent.parent / "victim.db").write_text("somebody else's")
    path.symlink_to("../victim.db")


def as_fifo(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("make", [as_folder, as_link, as_fifo], ids=lambda make: make.__name__)
def test_what_is_no_regular_file_is_moved_aside_unopened(world: World, make: Callable[[Path], None]) -> None:
    make(world.path)
    before = os.lstat(world.path)
    log = open_log(world.place)
    log.abandon()
    moved = os.lstat(world.folder / "events.db.damaged-1")
    assert (moved.st_ino, moved.st_mode) == (before.st_ino, before.st_mode)
    if make is as_link:
        assert (world.folder.parent / "victim.db").read_text() == "somebody else's"


def test_damaged_files_do_not_pile_up(world: World) -> None:
    for number in range(KEPT_ASIDE + 3):
        world.path.write_bytes(b"garbage %d" % number * 100)
        open_log(world.place).abandon()
    kept = sorted(name for name in contents(world.folder) if "damaged" in name)
    assert kept == [f"events.db.damaged-{number}" for number in range(4, 4 + KEPT_ASIDE)]


def raise_version(path: Path) -> None:
    writer = sqlite3.connect(path)
    writer.execute(f"PRAGMA user_version={VERSION + 1}")
    writer.commit()
    writer.close()


def test_a_newer_versions_file_is_not_touched(world: World) -> None:
    fill(world)
    raise_version(world.path)
    before = contents(world.folder)
    with pytest.raises(DbTooNew, match="newer version"):
        open_log(world.place)
    assert contents(world.folder) == before


def test_a_newer_versions_file_whose_version_is_still_in_the_write_ahead_log_is_not_touched(world: World) -> None:
    fill(world)
    writer = sqlite3.connect(world.path)
    writer.execute(f"PRAGMA user_version={VERSION + 1}")
    writer.commit()
    folder = world.folder.parent / "newer"
    folder.mkdir()
    for name in ("events.db", "events.db-wal"):
        shutil.copyfile(world.folder / name, folder / name)
    writer.close()
    newer = replace(world, folder=folder)
    before = contents(folder)
    with pytest.raises(DbTooNew):
        open_log(newer.place)
    assert contents(folder) == before


def test_a_folder_that_cannot_be_made_is_said(world: World) -> None:
    def refuse() -> None:
        raise PermissionError(13, "Permission denied")

    with pytest.raises(DbUnwritable, match="Permission denied"):
        open_log(replace(world.place, make_folder=refuse))


def test_a_path_that_sqlite_cannot_open_is_said_before_anything_is_made(tmp_path: Path) -> None:
    folder = tmp_path.joinpath(*["d" * 100] * 5)
    folder.mkdir(parents=True)
    world = World(folder)
    assert len(os.fsencode(world.path)) > LONGEST_PATH
    with pytest.raises(DbUnwritable, match="too long"):
        open_log(world.place)
    assert contents(folder) == {}


def test_the_longest_path_that_we_promise_works(tmp_path: Path) -> None:
    room = LONGEST_PATH - len(os.fsencode(tmp_path / "events.db")) - 1
    parts = ["d" * min(200, rest) for rest in range(room, 0, -201)]
    folder = tmp_path.joinpath(*parts)
    folder.mkdir(parents=True)
    world = World(folder)
    assert LONGEST_PATH - 1 <= len(os.fsencode(world.path)) <= LONGEST_PATH
    fill(world)


@pytest.mark.parametrize("name", ["with blank", "ümläut", "question?mark#and%41", "line\nbreak"])
def test_any_folder_name_works(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    fill(World(folder))
    assert sorted(contents(folder)) == ["events.db"]


def test_a_folder_name_that_is_no_utf8_works(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/\xff\xfe"
    os.mkdir(folder)
    fill(World(Path(os.fsdecode(folder))))
    assert os.listdir(folder) == [b"events.db"]

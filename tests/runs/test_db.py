"""`runs.db`: opened, kept whole, and given up only where it is not ours; nothing newer is touched."""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from cueloop_daemon.events.model import LONGEST_PATH
from cueloop_daemon.runs import queries
from cueloop_daemon.runs.db import BALLAST, RunsDb, RunsPlace, open_runs
from cueloop_daemon.runs.lane import DbLane
from cueloop_daemon.runs.schema import SCHEMA, VERSION
from cueloop_daemon.store.sqlite import DbDamaged, DbTooNew, DbUnwritable
from events.test_degraded import Faulty
from runs.records import new_run


def opened(place: RunsPlace) -> RunsDb:
    db = open_runs(place)
    db.close()
    return db


def change(place: RunsPlace, statement: str) -> None:
    with closing(sqlite3.connect(place.path)) as db:
        db.execute(statement)
        db.commit()


def test_a_new_record_is_private_and_its_generation_rises_with_each_opening(place: RunsPlace, tmp_path: Path) -> None:
    db = open_runs(place)
    modes = {entry.name: stat.S_IMODE(entry.stat().st_mode) for entry in tmp_path.iterdir()}
    db.close()
    assert modes == {"runs.db": 0o600, "runs.db-wal": 0o600}
    assert [opened(place).opening.generation for _ in range(3)] == [2, 3, 4]
    with closing(sqlite3.connect(place.path)) as raw:
        assert raw.execute("PRAGMA user_version").fetchone() == (VERSION,)


def test_every_commit_is_on_the_medium(place: RunsPlace) -> None:
    with closing(open_runs(place)) as db:
        assert db.read(lambda raw: raw.execute("PRAGMA synchronous").fetchone()) == (2,)
        assert db.read(lambda raw: raw.execute("PRAGMA journal_mode").fetchone()) == ("wal",)
        db.write(lambda raw: raw.execute("REPLACE INTO meta VALUES ('x', 1)"), durable=False)
        assert db.read(lambda raw: raw.execute("PRAGMA synchronous").fetchone()) == (2,)


def test_one_owner(place: RunsPlace) -> None:
    with closing(open_runs(place)), pytest.raises(DbUnwritable):
        open_runs(place)
    opened(place)


def test_a_newer_record_is_left_alone_to_the_byte(place: RunsPlace, tmp_path: Path) -> None:
    opened(place)
    change(place, f"PRAGMA user_version={VERSION + 1}")
    before = {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()}
    with pytest.raises(DbTooNew):
        open_runs(place)
    assert {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda place: Path(place.path).write_bytes(b"no database at all" * 100), id="something else"),
        pytest.param(lambda place: Path(place.path).write_bytes(b""), id="empty"),
        pytest.param(lambda place: change(place, "DROP TABLE owed"), id="a table is missing"),
        pytest.param(lambda place: change(place, "PRAGMA application_id=7"), id="another program's"),
    ],
)
def test_a_damaged_record_is_moved_aside_and_a_new_one_begun(place: RunsPlace, tmp_path: Path, damage) -> None:  # type: ignore[no-untyped-def]  # a table of lambdas
    opened(place)
    damage(place)
    before = Path(place.path).read_bytes()
    db = opened(place)
    assert db.opening.moved_to == str(tmp_path / "runs.db.damaged-1")
    assert (tmp_path / "runs.db.damaged-1").read_bytes() == before
    assert db.opening.generation == 1


@pytest.mark.parametrize("name", ["runs.db", "runs.db-wal"])
def test_a_record_that_is_removed_takes_no_further_step(place: RunsPlace, tmp_path: Path, name: str) -> None:
    with closing(open_runs(place)) as db:
        (tmp_path / name).unlink()
        done: list[str] = []
        with pytest.raises(DbDamaged):
            db.write(lambda raw: done.append("done"))
        assert done == []


def test_what_a_change_raises_comes_out_and_changes_nothing(place: RunsPlace) -> None:
    with closing(open_runs(place)) as db:

        def broken(raw: sqlite3.Connection) -> None:
            raw.execute("REPLACE INTO meta VALUES ('x', 1)")
            raise ValueError("not the file's fault")

        with pytest.raises(ValueError, match="not the file's fault"):
            db.write(broken)
        assert db.read(lambda raw: raw.execute("SELECT count(*) FROM meta WHERE key = 'x'").fetchone()) == (0,)


def test_a_long_path_is_refused(place: RunsPlace, tmp_path: Path) -> None:
    deep = tmp_path
    while len(str(deep)) <= LONGEST_PATH:
        deep = deep / ("d" * 100)
        deep.mkdir()
    with pytest.raises(DbUnwritable, match="too long"):
        open_runs(replace(place, path=str(deep / "runs.db")))


def test_the_schema_is_frozen() -> None:
    """A released schema never changes without a new version and a migration."""
    tables = [statement.split("(")[0].split()[-1] for statement in SCHEMA if statement.startswith("CREATE TABLE")]
    assert (VERSION, tables) == (
        1,
        ["meta", "runs", "steps", "outbox", "children", "questions", "conversations", "owed", "last_session"],
    )


def test_at_most_one_run_is_open_whatever_the_program_says(place: RunsPlace) -> None:
    with closing(open_runs(place)) as db:
        db.write(lambda raw: queries.insert(raw, new_run("r-1")))
        with pytest.raises(queries.AlreadyOpen, match="r-1"):
            db.write(lambda raw: queries.insert(raw, new_run("r-2")))
        statement = "INSERT INTO runs SELECT 'r-2', seq + 1, state, mode, request, 'k', digest, boot_id, started_at, cursor,"
        statement += " scope, checkpoint, next_order, next_ordinal, lives, stop_at, cancel_at, view, finished_at, summary, error"
        with pytest.raises(DbDamaged, match="UNIQUE"):
            db.write(lambda raw: raw.execute(statement + " FROM runs"))


def test_environment_and_secret_are_in_no_row(place: RunsPlace) -> None:
    run = new_run()
    assert run.request.params.env == {"SECRET": "hush"}
    with closing(open_runs(place)) as db:
        row = db.write(lambda raw: queries.insert(raw, run))
    assert row.request.params.env == {}
    assert b"hush" not in row.asked


async def test_the_ballast_makes_room_for_the_last_words(place: RunsPlace, tmp_path: Path) -> None:
    faulty = Faulty()
    lane = DbLane(replace(place, connect=faulty.connect))
    await lane.open()
    await lane.keep_ballast()
    assert (tmp_path / "runs.db.ballast").stat().st_size == BALLAST
    faulty.failures = 1
    await lane.last_words(lambda db: db.execute("REPLACE INTO meta VALUES ('x', 1)"))
    assert not (tmp_path / "runs.db.ballast").exists()
    await lane.keep_ballast()
    assert (tmp_path / "runs.db.ballast").exists()
    faulty.failures = float("inf")
    with pytest.raises(DbUnwritable):
        await lane.last_words(lambda db: db.execute("REPLACE INTO meta VALUES ('x', 2)"))
    faulty.failures = 0
    await lane.close()


async def test_a_lost_record_is_moved_aside_and_opened_anew(place: RunsPlace, tmp_path: Path) -> None:
    lane = DbLane(place)
    await lane.open()
    (tmp_path / "runs.db-wal").unlink()
    with pytest.raises(DbDamaged):
        await lane.once(lambda db: None)
    assert not lane.is_open
    with pytest.raises(DbUnwritable):
        await lane.read(lambda db: None)
    with pytest.raises(DbUnwritable):
        lane.now(lambda db: None)
    with pytest.raises(DbUnwritable):
        lane.put(lambda db: None)
    assert (tmp_path / "runs.db.damaged-1").exists()
    await lane.open()
    assert lane.generation == 1
    await lane.close()


async def test_a_record_that_cannot_be_opened_says_why_each_time(place: RunsPlace) -> None:
    with closing(open_runs(place)):
        lane = DbLane(place)
        with pytest.raises(DbUnwritable):
            await lane.open()
        with pytest.raises(DbUnwritable, match="locked"):
            await lane.once(lambda db: None)
    assert lane.generation == 0
    await lane.open()
    await lane.close()


async def test_a_patient_change_waits_for_room(place: RunsPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cueloop_daemon.runs.lane.AGAIN", 0.0)
    faulty, said = Faulty(), list[str]()
    lane = DbLane(replace(place, connect=faulty.connect), said.append)
    await lane.open()
    faulty.failures = 3
    await lane.write(lambda db: db.execute("REPLACE INTO meta VALUES ('x', 1)"))
    assert len(said) == 3
    await lane.close()

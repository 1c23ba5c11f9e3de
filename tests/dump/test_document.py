"""The dump is bounded, whole where it fits, and there whatever the repository is."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cueloop_daemon.dump.document import MOST_BYTES, bounded
from cueloop_daemon.dump.log_tail import MOST_LINES, recent_log
from cueloop_daemon.dump.records import event_facts, of_copy, run_facts
from cueloop_daemon.dump.without import dump_without_daemon
from cueloop_daemon.runs.schema import SCHEMA
from cueloop_protocol.dump_results import DumpResult
from cueloop_protocol.example_values import DUMP
from cueloop_protocol.roots import Caller, Root
from support.repository import Repository

LINE = {"time": "t", "level": "info", "logger": "l", "event": "e"}


def dumped(path: Path) -> dict[str, Any]:
    data = dump_without_daemon(
        Root(str(path), str(path)), Caller(str(path / "home"), None), {"B": "2", "A": "1"}, datetime.now(UTC)
    )
    DumpResult.model_validate_json(data)
    values: dict[str, Any] = json.loads(data)
    return values


def document(**changed: object) -> dict[str, Any]:
    return {**DUMP, **changed}


@pytest.mark.parametrize("name", ["log", "events", "tasks", "runs", "threads", "files", "environment"])
def test_what_is_too_much_is_cut_from_its_older_end_and_noted(name: str) -> None:
    example = DUMP[name]
    assert isinstance(example, list)
    entry = (
        json.loads(json.dumps(example[-1]).replace("}", ', "more": "' + "x" * 2000 + '"}'))
        if name != "environment"
        else "x" * 2000
    )
    data = bounded(document(**{name: [entry] * 1000 + [{"last": 1}]}))
    assert len(data) <= MOST_BYTES
    values = json.loads(data)
    assert values[name][-1] == {"last": 1}
    assert any(f"Of 1001 entries of {name} the last {len(values[name])}" in note for note in values["notes"])


def test_what_fits_is_told_whole_and_one_long_text_is_cut() -> None:
    assert json.loads(bounded(document())) == document()
    values = json.loads(bounded(document(stacks="x" * 5_000_000)))
    assert len(values["stacks"]) < 70_000
    assert values["stacks"].startswith("… ")


def test_everything_of_a_repository_without_a_daemon(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "repo").lay()
    before = sorted(repository.path.rglob("*"))
    values = dumped(repository.path)
    facts = {fact["name"]: fact for fact in values["files"]}
    queue = facts["queue.jsonc"]
    assert (queue["kind"], queue["size"]) == ("file", repository.queue.stat().st_size)
    assert queue["etag"] == hashlib.sha256(repository.queue.read_bytes()).hexdigest()
    assert facts["session"]["kind"] == "missing"
    assert values["environment"] == ["A", "B"]
    assert values["settings"]["idle_exit_minutes"] == 30
    assert "status" not in values
    assert sorted(repository.path.rglob("*")) == before


@pytest.mark.parametrize("what", ["nothing", "file", "link", "fifo", "folder"])
def test_whatever_stands_in_a_files_place(tmp_path: Path, what: str) -> None:
    (tmp_path / ".cueloop").mkdir()
    for name in ("queue.jsonc", "cache"):
        path = tmp_path / ".cueloop" / name
        match what:
            case "file":
                path.write_bytes(b"\xff\x00[")
            case "link":
                path.symlink_to(path)
            case "fifo":
                os.mkfifo(path)
            case "folder":
                path.mkdir()
    facts = {fact["name"]: fact for fact in dumped(tmp_path)["files"]}
    kind = {"nothing": "missing", "fifo": "other"}.get(what, what)
    assert facts["queue.jsonc"]["kind"] == kind


def test_the_end_of_the_log_over_a_rotation(tmp_path: Path) -> None:
    path = tmp_path / "daemon.log"
    Path(f"{path}.1").write_text("".join(json.dumps({**LINE, "n": number}) + "\n" for number in range(1000)))
    path.write_text("not json\n[1]\n" + json.dumps({**LINE, "n": 1000}) + "\n{half")
    found, notes = recent_log(str(path))
    assert [line["n"] for line in found] == list(range(1000 - (MOST_LINES - 4), 1001))
    assert notes == ["3 lines of the log are no lines of ours and are left out."]
    assert recent_log(str(tmp_path / "none")) == ([], [])


def runs_db(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        for statement in SCHEMA:
            db.execute(statement)
        names = "run_id, seq, state, mode, request, digest, boot_id, started_at, cursor, scope, checkpoint, next_order, next_ordinal, lives"
        db.execute(
            f"INSERT INTO runs ({names}) VALUES ('r1', 1, 'open', 'loop', 'SECRET', 'd', 'b', 't', 'c', 0, 'SECRET', 1, 1, 2)"
        )
        db.execute(
            "INSERT INTO runs (summary, "
            + names
            + """) VALUES ('{"outcome": "ran", "task_id": "SECRET"}',
            'r0', 0, 'over', 'one', 'SECRET', 'd', 'b', 't', 'c', 0, 'SECRET', 1, 1, 0)"""
        )
        db.execute(
            "INSERT INTO steps VALUES ('r1', 0, 'lock', 'step', 'SECRET', 'SECRET'), ('r1', 1, 'start 1', 'step', 'SECRET', NULL)"
        )
        db.execute("INSERT INTO children (run_id, number, kind, code) VALUES ('r1', 1, 'agent', 0)")


def test_runs_are_told_by_states_and_steps(tmp_path: Path) -> None:
    runs_db(tmp_path / "runs.db")
    notes: list[str] = []
    found = of_copy(str(tmp_path / "runs.db"), run_facts, "The record of runs", notes)
    assert [(run.run_id, run.state, run.lives, run.outcome) for run in found] == [
        ("r1", "open", 2, None),
        ("r0", "over", 0, "ran"),
    ]
    assert [(step.key, step.has_result) for step in found[0].steps] == [("lock", True), ("start 1", False)]
    assert [(child.number, child.kind, child.code) for child in found[0].children] == [(1, "agent", 0)]
    assert notes == []
    assert not any("SECRET" in run.model_dump_json() for run in found)
    assert sorted(os.listdir(tmp_path)) == ["runs.db"]


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\x00", b"x" * 5000])
def test_a_database_that_is_none_is_noted(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.db").write_bytes(content)
    notes: list[str] = []
    assert of_copy(str(tmp_path / "x.db"), event_facts, "The event log", notes) == []
    assert len(notes) == 1
    assert notes[0].startswith("The event log cannot be told: ")
    assert of_copy(str(tmp_path / "none"), event_facts, "x", notes) == []
    assert len(notes) == 1

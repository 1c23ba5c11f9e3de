"""Runs in `runs.db` as wholes: beginning one, finding one, the history. Functions of a connection."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from cueloop_daemon.runs.state import STATE, State
from cueloop_protocol.base import to_json_bytes
from cueloop_protocol.documents.config import Config
from cueloop_protocol.params import RunStartParams
from cueloop_protocol.roots import Caller
from cueloop_protocol.shapes import Mode, Question
from cueloop_protocol.values import dataclass


class StoredRequest(BaseModel):
    """What a run was asked, without its environment, which is in no database."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    params: RunStartParams
    home: str
    config_home: str | None
    config: Config
    """As it was when the run started, the profile applied; a webhook's secret is not in it."""

    @property
    def caller(self) -> Caller:
        """Whose configuration it is."""
        return Caller(self.home, self.config_home)


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run that is to begin. `digest` is of the request, for a key that is used again."""

    run_id: str
    request: StoredRequest
    key: str | None
    digest: str
    boot_id: str
    started_at: str
    cursor: str
    """The place in the event log before the run's first event."""
    view: bytes


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run as its record has it. `asked`, `view`, `summary` and `error` are JSON."""

    run_id: str
    is_open: bool
    mode: Mode
    asked: bytes
    digest: str
    boot_id: str
    started_at: str
    cursor: str
    lives: int
    stop_at: str | None
    cancel_at: str | None
    view: bytes | None
    finished_at: str | None
    summary: bytes | None
    error: bytes | None

    @property
    def request(self) -> StoredRequest:
        """What was asked for. ValueError: another version of the daemon wrote it."""
        return StoredRequest.model_validate_json(self.asked)


class AlreadyOpen(Exception):
    """Another run is open; `str()` is its id."""


_COLUMNS = "run_id, state, mode, request, digest, boot_id, started_at, cursor, lives, stop_at, cancel_at, view, finished_at, summary, error"


def insert(db: sqlite3.Connection, run: NewRun) -> RunRow:
    """Begin a run. AlreadyOpen: there is one, whoever won; the unique index decides."""
    other = open_run(db)
    if other is not None:
        raise AlreadyOpen(other.run_id)
    seq = db.execute("SELECT coalesce(max(seq), 0) + 1 FROM runs").fetchone()[0]
    request = run.request.model_copy(update={"params": run.request.params.model_copy(update={"env": {}})})
    values: Mapping[str, object] = {
        "run_id": run.run_id,
        "seq": seq,
        "state": "open",
        "mode": request.params.mode,
        "request": to_json_bytes(request),
        "idempotency_key": run.key,
        "digest": run.digest,
        "boot_id": run.boot_id,
        "started_at": run.started_at,
        "cursor": run.cursor,
        "scope": 0,
        "checkpoint": STATE.dump_json(State()),
        "next_order": 1,
        "next_ordinal": 1,
        "lives": 0,
        "view": run.view,
    }
    names = ", ".join(values)
    db.execute(f"INSERT INTO runs ({names}) VALUES ({', '.join('?' * len(values))})", tuple(values.values()))
    made = get(db, run.run_id)
    assert made is not None
    return made


def open_run(db: sqlite3.Connection) -> RunRow | None:
    """The run that is under way; None if there is none."""
    found = db.execute(f"SELECT {_COLUMNS} FROM runs WHERE state = 'open'").fetchone()
    return None if found is None else _row(found)


def get(db: sqlite3.Connection, run_id: str) -> RunRow | None:
    """One run; None if it is not, or no longer, kept."""
    found = db.execute(f"SELECT {_COLUMNS} FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    return None if found is None else _row(found)


def by_key(db: sqlite3.Connection, key: str) -> RunRow | None:
    """The run that was started with this idempotency key."""
    found = db.execute(f"SELECT {_COLUMNS} FROM runs WHERE idempotency_key = ?", (key,)).fetchone()
    return None if found is None else _row(found)


def page(db: sqlite3.Connection, limit: int, before: str | None) -> tuple[list[RunRow], bool]:
    """Runs, newest first, older than `before`; and whether there are more. LookupError: `before` is no run."""
    end = None
    if before is not None:
        found = db.execute("SELECT seq FROM runs WHERE run_id = ?", (before,)).fetchone()
        if found is None:
            raise LookupError(before)
        end = found[0]
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM runs WHERE ? IS NULL OR seq < ? ORDER BY seq DESC LIMIT ?", (end, end, limit + 1)
    ).fetchall()
    return [_row(row) for row in rows[:limit]], len(rows) > limit


def wish(db: sqlite3.Connection, run_id: str, what: str, at: str) -> bool:
    """Record the wish that a run stop or be cancelled; False if it is not open."""
    column = {"stop": "stop_at", "cancel": "cancel_at"}[what]
    changed = db.execute(f"UPDATE runs SET {column} = coalesce({column}, ?) WHERE run_id = ? AND state = 'open'", (at, run_id))
    return changed.rowcount == 1


def begin_life(db: sqlite3.Connection, run_id: str) -> int:
    """A new daemon goes on with the run; how often that was done since anything new was written about it."""
    db.execute("UPDATE runs SET lives = lives + 1 WHERE run_id = ?", (run_id,))
    return int(db.execute("SELECT lives FROM runs WHERE run_id = ?", (run_id,)).fetchone()[0])


def end_life(db: sqlite3.Connection, run_id: str) -> None:
    """The daemon that went on with the run leaves as it should: it is not counted among those that the run may have ended."""
    db.execute("UPDATE runs SET lives = max(lives - 1, 1) WHERE run_id = ? AND state = 'open' AND lives > 0", (run_id,))


def superfluous(db: sqlite3.Connection, keep: int) -> list[RunRow]:
    """Runs beyond the newest `keep`, oldest first; never one whose events are still to be told, or that is open."""
    found = db.execute(
        f"SELECT {_COLUMNS} FROM runs WHERE state = 'over' AND run_id NOT IN (SELECT run_id FROM outbox)"
        " AND seq NOT IN (SELECT seq FROM runs ORDER BY seq DESC LIMIT ?) ORDER BY seq",
        (keep,),
    )
    return [_row(row) for row in found]


def erase(db: sqlite3.Connection, run_id: str) -> None:
    """Forget a run that is over. Its agents' conversations belong to a task's session: see `batches.forget_left`."""
    for table in ("runs", "children", "questions"):
        db.execute(f"DELETE FROM {table} WHERE run_id = ?", (run_id,))


def open_questions(db: sqlite3.Connection, run_id: str | None = None) -> tuple[Question, ...]:
    """Questions that nobody has answered, oldest first; of one run or of all."""
    found = db.execute(
        "SELECT body FROM questions WHERE answered_at IS NULL AND (? IS NULL OR run_id = ?) ORDER BY expires_at, question_id",
        (run_id, run_id),
    )
    return tuple(Question.model_validate_json(body) for (body,) in found)


def _row(row: tuple[object, ...]) -> RunRow:
    run_id, state, *rest = row
    return RunRow(run_id, state == "open", *rest)  # type: ignore[arg-type]  # SQLite's columns are not typed

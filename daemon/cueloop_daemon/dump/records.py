"""What the two databases say, without what people said: runs by their states and steps, events by their kinds."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from typing import TypeVar

from pydantic_core import from_json

from cueloop_daemon.store.sqlite import READING, connect
from cueloop_protocol.dump_results import ChildFact, EventFact, RunFact, StepFact

T = TypeVar("T")

MOST_RUNS = 10
MOST_STEPS = 200
MOST_CHILDREN = 50
MOST_EVENTS = 200
LARGEST = 256 * 1024 * 1024
"""Bytes of a database that is looked into without its owner."""


def run_facts(db: sqlite3.Connection) -> list[RunFact]:
    """The last runs, newest first."""
    rows = db.execute(
        "SELECT run_id, mode, state, started_at, lives, stop_at, cancel_at, finished_at, summary FROM runs ORDER BY seq DESC LIMIT ?",
        (MOST_RUNS,),
    )
    return [
        RunFact(
            run_id=run_id, mode=mode, state=state, started_at=started, lives=lives, stop_at=stop, cancel_at=cancel,
            finished_at=finished, outcome=_outcome(summary), steps=_steps(db, run_id), children=_children(db, run_id),
        )
        for run_id, mode, state, started, lives, stop, cancel, finished, summary in rows.fetchall()
    ]  # fmt: skip


def event_facts(db: sqlite3.Connection) -> list[EventFact]:
    """The last events, oldest first."""
    rows = db.execute("SELECT seq, method, kind, run_id FROM events ORDER BY seq DESC LIMIT ?", (MOST_EVENTS,)).fetchall()
    return [EventFact(seq=seq, method=method, kind=kind, run_id=run_id) for seq, method, kind, run_id in reversed(rows)]


def of_copy(path: str, query: Callable[[sqlite3.Connection], list[T]], name: str, notes: list[str]) -> list[T]:
    """What `query` finds in a copy of the database, which nobody else has then. Nothing is written beside the original.

    A live owner may write meanwhile, so that the copy is torn: that, and whatever else goes wrong, is noted.
    """
    try:
        if not os.path.lexists(path):
            return []
        with tempfile.TemporaryDirectory(prefix="cueloop-dump-") as folder:
            for ending in ("", "-wal"):
                _copy(path + ending, os.path.join(folder, f"copy{ending}"))
            with closing(connect(os.path.join(folder, "copy"), READING)) as db:
                return query(db)
    except (OSError, sqlite3.Error, ValueError) as exc:
        notes.append(f"{name} cannot be told: {getattr(exc, 'strerror', None) or exc}.")
        return []


def _copy(source: str, target: str) -> None:
    try:
        fd = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    with open(fd, "rb") as file, open(target, "wb") as copy:
        if os.fstat(fd).st_size > LARGEST:
            raise ValueError("it is too large to be looked into")
        shutil.copyfileobj(file, copy, 1024 * 1024)


def _steps(db: sqlite3.Connection, run_id: str) -> tuple[StepFact, ...]:
    rows = db.execute(
        "SELECT key, kind, result IS NOT NULL FROM steps WHERE run_id = ? ORDER BY idx DESC LIMIT ?", (run_id, MOST_STEPS)
    ).fetchall()
    return tuple(StepFact(key=key, kind=kind, has_result=bool(done)) for key, kind, done in reversed(rows))


def _children(db: sqlite3.Connection, run_id: str) -> tuple[ChildFact, ...]:
    rows = db.execute(
        "SELECT number, kind, code, signal, cause FROM children WHERE run_id = ? ORDER BY number DESC LIMIT ?",
        (run_id, MOST_CHILDREN),
    ).fetchall()
    return tuple(
        ChildFact(number=number, kind=kind, code=code, signal=signal, cause=cause)
        for number, kind, code, signal, cause in reversed(rows)
    )


def _outcome(summary: bytes | None) -> str | None:
    found = from_json(summary) if summary else None
    outcome = found.get("outcome") if isinstance(found, dict) else None
    return outcome if isinstance(outcome, str) else None

"""Snapshots for tests of the decision: a queue, a session and a clock, with everything else at its default."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from cueloop_daemon.core.checked import CheckedQueue
from cueloop_daemon.core.controls import execution_controls
from cueloop_daemon.core.layers import read_layer, resolve
from cueloop_daemon.core.model import (
    ActiveRun,
    Paths,
    QueueFile,
    QueueMissing,
    SessionFile,
    SessionLoaded,
    SessionMissing,
    Snapshot,
    Unusable,
)
from cueloop_daemon.core.stamps import format_stamp
from cueloop_daemon.store.queue_file import parse_queue
from cueloop_protocol.documents.config import Config
from cueloop_protocol.documents.decision import Decision
from cueloop_protocol.documents.session import Session

NOW = datetime(2026, 2, 8, 12, 0, 0, tzinfo=UTC)
ETAG = "etag-of-the-file"
STAMP = "2026-02-07T10:00:00.000000000Z"


def config(**agent: object) -> Config:
    return resolve([read_layer("config.jsonc", {"agent": agent})])


def session(**changes: object) -> Session:
    fields: dict[str, object] = {
        "version": 1,
        "session_id": "550e8400-e29b-41d4-a716-446655440000",
        "task_id": "RQ-0001",
        "run_started_at": format_stamp(NOW - timedelta(hours=2)),
        "last_updated_at": format_stamp(NOW - timedelta(hours=1)),
        "iterations_planned": 2,
        "iterations_completed": 1,
        "current_phase": 2,
        "runner": "claude",
        "model": "sonnet",
        "tasks_completed_in_loop": 1,
        "max_tasks": 10,
    }
    return Session.model_validate(fields | changes)


def loaded(age: timedelta = timedelta(hours=1), **changes: object) -> SessionLoaded:
    return SessionLoaded(session(**{"last_updated_at": format_stamp(NOW - age)} | changes), ETAG)


def task(number: int, status: str = "todo", **more: object) -> dict[str, object]:
    fields: dict[str, object] = {"id": f"RQ-{number:04d}", "status": status, "title": f"Task {number}"}
    fields |= {"created_at": STAMP, "updated_at": STAMP}
    if status in ("done", "rejected"):
        fields["completed_at"] = STAMP
    return fields | more


def queue(*tasks: dict[str, object]) -> CheckedQueue:
    parsed = parse_queue(json.dumps({"version": 1, "tasks": tasks}).encode(), "queue.jsonc")
    assert isinstance(parsed, CheckedQueue), parsed
    return parsed


def active_run(decision: Decision | None) -> ActiveRun:
    return ActiveRun("r1", "one", "RQ-0001", "implement", "running", STAMP, decision)


def snapshot(
    file: SessionFile | None = None,
    tasks: QueueFile | QueueMissing | Unusable | None = None,
    *,
    done: QueueFile | QueueMissing | Unusable | None = None,
    settings: Config | Unusable | None = None,
    run: ActiveRun | None = None,
) -> Snapshot:
    """By default: no session; RQ-0001 `doing` and RQ-0002 `todo`; no done file; the default configuration."""
    return Snapshot(
        paths=Paths("/repo", "/repo/.cueloop/queue.jsonc", "/repo/.cueloop/done.jsonc", "/repo/.cueloop/config.jsonc", "/home/g"),
        trusted=False,
        config=config() if settings is None else settings,
        controls=execution_controls(None, ()),
        session=SessionMissing() if file is None else file,
        queue=queue(task(1, "doing"), task(2)) if tasks is None else tasks,
        done=QueueMissing("/repo/.cueloop/done.jsonc") if done is None else done,
        lock=None,
        active_run=run,
        settling=False,
        dirty=False,
        dirty_checked_at=None,
        revision=1,
    )

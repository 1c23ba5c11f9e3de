"""Faults of runs, and what they leave behind; how to mend them."""

from __future__ import annotations

import shutil
import sqlite3

from cueloop_daemon.core.model import ActiveRun, OwedTask, ShimProcess
from cueloop_daemon.runs.active import active_bytes
from cueloop_daemon.runs.db import RunsPlace, open_runs
from cueloop_daemon.runs.owed_file import OWED
from cueloop_protocol.identity import boot_id, process_start_time
from doctor.fault import Fault
from doctor.faults_daemon import drop, ours, put, says
from doctor.lab import Lab


def _active(lab: Lab) -> None:
    pid = lab.child()
    shim = ShimProcess(pid, process_start_time(pid) or "", boot_id())
    run = ActiveRun("r1", "loop", "RQ-0001", "implement", "running", "2026-02-07T10:00:00Z", None, shim)
    put("active.json", active_bytes(run))(lab)


def _record(lab: Lab) -> sqlite3.Connection:
    """A record of runs that a daemon made and closed."""
    path = ours(lab) / "runs.db"
    open_runs(RunsPlace(str(path), lambda: None)).close()
    return sqlite3.connect(path)


def _interrupted(lab: Lab) -> None:
    db = _record(lab)
    columns = {
        "run_id": "r1",
        "seq": 1,
        "state": "open",
        "mode": "one",
        "request": b"{}",
        "digest": "d",
        "boot_id": "b",
        "started_at": "2026-02-07T10:00:00Z",
        "cursor": "e:0",
        "scope": 0,
        "checkpoint": b"{}",
        "next_order": 1,
        "next_ordinal": 1,
        "lives": 0,
    }
    with db:
        db.execute(f"INSERT INTO runs ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})", tuple(columns.values()))
    db.close()


def _settle(lab: Lab) -> None:
    with sqlite3.connect(lab.repository.ours / "runs.db") as db:
        db.execute("UPDATE runs SET state = 'over'")
    db.close()


def _newer_record(lab: Lab) -> None:
    db = _record(lab)
    db.execute("PRAGMA user_version = 99")
    db.commit()
    db.close()


def _left_temp(lab: Lab) -> None:
    (lab.repository.cache / f".session.jsonc.cueloopd-{lab.dead()}-1-0.tmp").write_text("{}")


def _remove_temps(lab: Lab) -> None:
    for path in lab.repository.cache.glob(".session.*"):
        path.unlink()


FAULTS = (
    Fault(
        "active",
        "run-active",
        lambda lab: (_active(lab), says()(lab)),
        drop("active.json"),
        ("r1", "RQ-0001", "cueloop run status"),
    ),
    Fault("without daemon", "run-without-daemon", _active, drop("active.json"), ("r1", "cueloop daemon start")),
    Fault("interrupted", "run-interrupted", _interrupted, _settle, ("r1", "cueloop run resume")),
    Fault(
        "folder left",
        "run-folder-left",
        put("runs/r7/1.out.0", b"x"),
        lambda lab: shutil.rmtree(lab.repository.ours / "runs"),
        ("r7", "rm -r"),
    ),
    Fault("owed", "owed-steps", put("owed.json", OWED.dump_json((OwedTask("RQ-0002", None),))), drop("owed.json"), ("RQ-0002",)),
    Fault("record damaged", "runs-record-damaged", put("runs.db", b"no database" * 100), drop("runs.db"), ("runs.db",)),
    Fault("record newer", "runs-record-newer", _newer_record, drop("runs.db"), ("99",)),
    Fault("log damaged", "event-log-damaged", put("events.db", b"no database" * 100), drop("events.db"), ("events.db",)),
    Fault("set aside", "damaged-files-kept", put("runs.db.damaged-1", b"x"), drop("runs.db.damaged-1"), ("damaged-1",)),
    Fault(
        "stop marker",
        "stop-marker",
        lambda lab: (lab.repository.cache / "stop_requested").touch(),
        lambda lab: (lab.repository.cache / "stop_requested").unlink(),
        ("stop_requested",),
    ),
    Fault("left over", "left-over-files", _left_temp, _remove_temps, (".session.jsonc.cueloopd",)),
    Fault(
        "quarantine",
        "sessions-quarantined",
        put("../session-quarantine/session.jsonc.corrupt.2026", b"{"),
        drop("../session-quarantine/session.jsonc.corrupt.2026"),
        ("session-quarantine",),
    ),
)

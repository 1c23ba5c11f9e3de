"""One example of everything that goes over the socket. The reference shows them; a test reads each with its model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cueloop_protocol import codes
from cueloop_protocol.base import JsonObject
from cueloop_protocol.codes import RpcError
from cueloop_protocol.example_config import RESOLVE_DOCUMENT
from cueloop_protocol.example_values import (
    BEFORE,
    CALLER,
    DOCUMENT,
    DUMP,
    EPOCH,
    ETAG,
    EVENTS,
    METRICS,
    OBSERVED,
    OVERVIEW,
    QUESTION,
    RECORD,
    REFUSING,
    RESUMING,
    RUN,
    SESSION,
    SNAPSHOT,
    STANDING,
    SUMMARY,
)


@dataclass(frozen=True, slots=True)
class Example:
    """A call and its answer."""

    params: JsonObject
    result: JsonObject


CALLS: Mapping[str, Example] = {
    "hello": Example(
        {
            "client": {"name": "CueLoopMac", "version": "3.2"},
            "protocol": {"min": 1, "max": 1},
            "documents": {"config_resolve": [5]},
        },
        {
            **OBSERVED,
            "protocol": 1,
            "daemon_version": "0.1.0",
            "instance": "d41d8cd98f",
            "pid": 4700,
            "repo_root": "/home/ann/shop",
            "paths": RESOLVE_DOCUMENT["paths"],
            "documents": {
                "config_resolve": 5,
                "error": 1,
                "run_event": 3,
                "run_stop": 1,
                "run_summary": 2,
                "workspace_overview": 1,
            },
            "capabilities": ["events", "preview", "runs", "session"],
        },
    ),
    "ping": Example({}, {}),
    "config.resolve": Example({"exact": True, "caller": CALLER}, {**STANDING, "document": DOCUMENT}),
    "workspace.overview": Example({"caller": CALLER}, {**STANDING, "document": OVERVIEW}),
    "session.get": Example(
        {},
        {
            **OBSERVED,
            "state": "loaded",
            "path": "/home/ann/shop/.cueloop/cache/session.jsonc",
            "session": SESSION,
            "age_seconds": 300,
            "etag": ETAG,
            "decision": RESUMING,
            "settling": False,
        },
    ),
    "session.clear": Example(
        {"etag": ETAG},
        {
            **OBSERVED,
            "history": "/home/ann/shop/.cueloop/cache/cueloopd/history/00000007.jsonc",
            "task_id": "CL-0001",
        },
    ),
    "resume.preview": Example(
        {"request": {"mode": "one", "interactive": True}},
        {**OBSERVED, "decision": REFUSING, "choices": ["resume", "fresh"], "session_etag": ETAG, "settling": False},
    ),
    "run.start": Example(
        {
            "mode": "loop",
            "max_tasks": 5,
            "answer": {"choice": "resume", "session_etag": ETAG},
            "overrides": {"runner": "claude", "phase1": {"effort": "high"}},
            "env": {"PATH": "/usr/bin:/bin", "HOME": "/home/ann"},
            "idempotency_key": "0b9c",
        },
        {**OBSERVED, "run_id": RUN, "cursor": f"{EPOCH}:41", "repeated": False},
    ),
    "run.answer": Example(
        {"run_id": RUN, "question_id": "q1", "choice": "continue", "text": "Leave the lock file alone."},
        {**OBSERVED, "run_id": RUN, "question_id": "q1", "choice": "continue", "first": True},
    ),
    "run.stop": Example({}, {**OBSERVED, "run_id": RUN, "state": "stopping"}),
    "run.cancel": Example(
        {"run_id": RUN},
        {**OBSERVED, "run_id": RUN, "summary": {"version": 2, "task_id": None, "exit_code": 0, "outcome": "stopped"}},
    ),
    "run.get": Example({"run_id": RUN}, {**OBSERVED, "run": RECORD}),
    "run.list": Example({"limit": 1}, {**OBSERVED, "runs": [RECORD], "more": True}),
    "run.output": Example(
        {"run_id": RUN},
        {
            "run_id": RUN,
            "offset": 0,
            "next_offset": 19,
            "total": 19,
            "text": "All 12 tests pass.\n",
            "complete": True,
            **OBSERVED,
        },
    ),
    "events.subscribe": Example(
        {"cursor": f"{EPOCH}:41", "kinds": ["resume_decision", "warning"], "caller": CALLER},
        {"subscription": "s1", "cursor": f"{EPOCH}:41", "snapshot": SNAPSHOT},
    ),
    "events.unsubscribe": Example({"subscription": "s1"}, {"removed": True}),
    "client.state": Example({"active_window": True}, {}),
    "daemon.status": Example(
        {},
        {
            **OBSERVED,
            "pid": 4700,
            "daemon_version": "0.1.0",
            "instance": "d41d8cd98f",
            "protocol": 1,
            "state": "serving",
            "started_at": BEFORE,
            "uptime_seconds": 300.25,
            "connections": 2,
            "subscribers": 1,
            "snapshots": 1,
            "memory_bytes": 41943040,
            "watcher": {"backend": "inotify", "degraded": False},
            "events": {"epoch": EPOCH, "first_seq": 1, "last_seq": 41, "bytes": 65536, "degraded": False},
            "paths": {
                "repo_root": "/home/ann/shop",
                "folder": "/home/ann/shop/.cueloop/cache/cueloopd",
                "socket": "/run/user/1000/cueloopd/5f2a/d.sock",
                "log": "/home/ann/shop/.cueloop/cache/cueloopd/daemon.log",
            },
            "counters": {"requests_total": 120, "lagging": 0, "gaps_sent": 0},
            "metrics": METRICS,
            "origin": "demand",
            "start_time": "81522",
            "boot_id": "0c6ff1d8-6ed7-4d6b",
        },
    ),
    "daemon.dump": Example({}, DUMP),
    "daemon.shutdown": Example(
        {"runs": "refuse"},
        {"pid": 4700, "instance": "d41d8cd98f", "runs_left": [], "start_time": "81522", "boot_id": "0c6ff1d8-6ed7-4d6b"},
    ),
    "daemon.handover": Example(
        {
            "version": "0.2.0",
            "protocol": {"min": 1, "max": 1},
            "events_schema": 2,
            "runs_schema": 1,
            "record": 1,
            "runs": "leave",
            "heir": {
                "pid": 4711,
                "socket": "/tmp/cueloopd-1000/5f2a6c0e9b1d4478.heir-4711",
                "token": "9c1185a5c5e9fc54612808977ee8f548",
            },
        },
        {
            "pid": 4700,
            "start_time": "81522",
            "boot_id": "0c6ff1d8-6ed7-4d6b",
            "instance": "d41d8cd98f",
            "version": "0.1.0",
            "leaves_within": 8.0,
            "runs_left": [],
        },
    ),
    "rpc.discover": Example(
        {},
        {
            "openrpc": "1.3.2",
            "info": {"title": "cueloopd", "version": "0.1.0"},
            "methods": [],
            "components": {"schemas": {}},
        },
    ),
}
"""Method → a call and its answer."""

ANNOUNCED: JsonObject = {"subscription": "s1", "cursor": f"{EPOCH}:42"}

NOTED: Mapping[str, JsonObject] = {
    "event": {**ANNOUNCED, "revision": 18, "origin": "watch", "event": EVENTS["resume_decision"]},
    "run.finished": {**ANNOUNCED, "revision": 18, "run_id": RUN, "summary": SUMMARY},
    "question": {**ANNOUNCED, "revision": 18, "run_id": RUN, "question": QUESTION},
    "question.resolved": {
        **ANNOUNCED,
        "revision": 18,
        "run_id": RUN,
        "question_id": "q1",
        "choice": "keep",
        "by": "timeout",
    },
    "gap": {**ANNOUNCED, "from": "oldEpoch:7", "to": f"{EPOCH}:42", "snapshot": SNAPSHOT},
    "daemon.closing": {"reason": "upgrade"},
    "$/cancelRequest": {"id": 7},
}
"""Notification → its params."""

ERRORS: tuple[RpcError, ...] = (
    codes.parse_error("key must be a string at line 1 column 2"),
    codes.invalid_request("method is a string"),
    codes.method_not_found("run.strat"),
    codes.invalid_params([{"path": "answer.choice", "message": "Input should be 'resume' or 'fresh'"}]),
    codes.internal_error(),
    codes.cancelled(),
    codes.document_unusable(
        "config_incompatible",
        "The config /home/ann/shop/.cueloop/config.jsonc cannot be used: agent.phases is 7.",
        "Allowed: a whole number from 1 to 3.",
    ),
    codes.confirmation_required(REFUSING, ETAG, ["resume", "fresh"], SESSION),
    codes.confirmation_stale(ETAG, RESUMING),
    codes.run_active(RUN),
    codes.no_such_run("r9"),
    codes.version_mismatch(
        "The daemon speaks protocol 1 to 1, the client 2 to 2.",
        {"daemon": {"min": 1, "max": 1}, "client": {"min": 2, "max": 2}},
        "Run `cueloop daemon restart` with the newer cueloop.",
    ),
    codes.shutting_down(),
    codes.conflict(
        "The session changed after you looked at it.",
        detail="Nothing was done. Look at it again (`cueloop session show`).",
        session_etag=ETAG,
    ),
    codes.lock_held("run loop", 4242, BEFORE),
    codes.limit_exceeded("No request came within 5 seconds."),
    codes.runner_unavailable("There is no program claude on the PATH of this run.", "Looked in /usr/bin:/bin."),
    codes.not_writable(
        "Cannot write /home/ann/shop/.cueloop/cache/session.jsonc: the file system is read-only.",
        "Mount it writable and try again.",
    ),
)
"""One of each code."""

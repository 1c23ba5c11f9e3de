"""One example of everything that goes over the socket. The reference shows them; a test reads each with its model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cueloop_protocol import codes
from cueloop_protocol.base import JsonObject
from cueloop_protocol.codes import RpcError
from cueloop_protocol.example_document import RESOLVE_DOCUMENT

EPOCH = "k3Jx0aQz"
RUN = "20260426T060000Z-7f3a"
ETAG = "9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab"
NOW = "2026-04-26T06:00:00.000000000Z"
BEFORE = "2026-04-26T05:55:00.000000000Z"

RESUMING: JsonObject = {
    "status": "resuming_same_session",
    "scope": "run_session",
    "reason": "session_valid",
    "task_id": "CL-0001",
    "message": "Resume: continuing the interrupted session for task CL-0001.",
    "detail": "Saved session is current and will resume from phase 2 with 1 completed loop task(s).",
}
REFUSING: JsonObject = {
    "status": "refusing_to_resume",
    "scope": "run_session",
    "reason": "resume_confirmation_required",
    "task_id": "CL-0001",
    "message": "Resume: the interrupted session for task CL-0001 needs a decision.",
    "detail": "Choose to resume it or to start fresh.",
}
SESSION: JsonObject = {
    "version": 1,
    "session_id": "550e8400-e29b-41d4-a716-446655440000",
    "task_id": "CL-0001",
    "run_started_at": "2026-04-26T05:30:00.000000000Z",
    "last_updated_at": BEFORE,
    "iterations_planned": 2,
    "iterations_completed": 1,
    "current_phase": 2,
    "runner": "claude",
    "model": "sonnet",
    "tasks_completed_in_loop": 1,
    "max_tasks": 10,
    "git_head_commit": "abc123def456",
}
IDLE: JsonObject = {
    "status": "waiting",
    "reason": {"kind": "idle", "include_draft": False},
    "message": "There is nothing to run.",
    "detail": "No task of the queue is todo.",
    "observed_at": NOW,
}
STALLED: JsonObject = {
    "status": "stalled",
    "reason": {
        "kind": "runner_recovery",
        "scope": "run_session",
        "reason": "resume_confirmation_required",
        "task_id": "CL-0001",
    },
    "task_id": "CL-0001",
    "message": REFUSING["message"],
    "detail": REFUSING["detail"],
}
ACTIVE_RUN: JsonObject = {
    "run_id": RUN,
    "mode": "loop",
    "task_id": "CL-0001",
    "phase": "implement",
    "state": "running",
    "started_at": NOW,
    "decision": RESUMING,
    "shim": {"pid": 4711, "start_time": "88123", "boot_id": "0d6f2c1e-6a55-4d1c-9a0b-6d3c5d1f6a11"},
}
QUESTION: JsonObject = {
    "question_id": "q1",
    "run_id": RUN,
    "task_id": "CL-0001",
    "message": "The CI gate failed. What becomes of the changes?",
    "detail": "make ci ended with exit code 2, ten times.",
    "choices": [
        {"choice": "keep", "title": "Keep them", "takes_text": False},
        {"choice": "revert", "title": "Return to the tree as the task found it", "takes_text": False},
        {"choice": "continue", "title": "Tell the agent what to do", "takes_text": True},
    ],
    "default": "keep",
    "asked_at": NOW,
    "expires_at": "2026-04-26T07:00:00.000000000Z",
}
SUMMARY: JsonObject = {"version": 2, "task_id": "CL-0001", "exit_code": 0, "outcome": "ran"}
REFUSED: JsonObject = {"version": 2, "task_id": None, "exit_code": 1, "outcome": "stalled", "blocking": STALLED}
ERROR: JsonObject = codes.error_document(
    "config_incompatible", "agent.phases is 7; 1 to 3 is allowed.", "/home/ann/shop/.cueloop/config.jsonc"
)

CALLER: JsonObject = {"home": "/home/ann", "config_home": "/home/ann/.config"}
OBSERVED: JsonObject = {"revision": 17, "observed_at": NOW}
STANDING: JsonObject = {
    **OBSERVED,
    "session_etag": ETAG,
    "queue_lock": {"label": "run one", "pid": 4242, "started_at": BEFORE, "live": True},
    "dirty_checked_at": NOW,
    "settling": False,
}
DOCUMENT: JsonObject = {**RESOLVE_DOCUMENT, "resume_preview": RESUMING}
COUNTS: JsonObject = {
    "total_active": 2,
    "candidates_total": 1,
    "runnable_candidates": 1,
    "blocked_by_dependencies": 0,
    "blocked_by_schedule": 0,
    "blocked_by_status_or_flags": 0,
}
SNAPSHOT: JsonObject = {**STANDING, "document": DOCUMENT, "overview": COUNTS, "questions": []}
TASKS: JsonObject = {
    "version": 1,
    "tasks": [
        {
            "id": "CL-0002",
            "status": "todo",
            "title": "Sort the basket by price",
            "priority": "medium",
            "tags": [],
            "scope": [],
            "evidence": [],
            "plan": [],
            "notes": [],
            "depends_on": [],
            "blocks": [],
            "relates_to": [],
            "custom_fields": {},
        }
    ],
}
OVERVIEW: JsonObject = {
    "version": 1,
    "queue": {
        "version": 1,
        "paths": RESOLVE_DOCUMENT["paths"],
        "active": TASKS,
        "done": {"version": 1, "tasks": []},
        "next_runnable_task_id": "CL-0002",
        "runnability": {
            "version": 2,
            "now": NOW,
            "selection": {
                "include_draft": False,
                "prefer_doing": True,
                "selected_task_id": "CL-0002",
                "selected_task_status": "todo",
            },
            "summary": COUNTS,
            "tasks": [{"id": "CL-0002", "kind": "work_item", "status": "todo", "runnable": True, "reasons": []}],
        },
    },
    "config": DOCUMENT,
}
STOP: JsonObject = {
    "version": 1,
    "dry_run": False,
    "action": "created",
    "paths": RESOLVE_DOCUMENT["paths"],
    "marker": {"path": "/home/ann/shop/.cueloop/cache/stop_requested", "existed_before": False, "exists_after": True},
    "continuation": {
        "headline": "The loop stops after its current task.",
        "detail": "The marker is removed when it is honoured.",
        "next_steps": [
            {"title": "Look on", "command": "cueloop events --follow", "detail": "Shows what the run does until it stops."}
        ],
    },
}


def _event(kind: str, **more: object) -> JsonObject:
    """An envelope in its order of keys: `more` comes after `run_mode`."""
    event: dict[str, object] = {"version": 3, "kind": kind, "timestamp": NOW, "run_mode": "loop", **more}
    return event  # type: ignore[return-value]  # JSON values all, built from the literals below


EVENTS: Mapping[str, JsonObject] = {
    event["kind"]: event  # type: ignore[misc]  # a str, from the literal
    for event in (
        _event("run_started", payload={"config": DOCUMENT}),
        _event("resume_decision", task_id="CL-0001", message=RESUMING["message"], payload=RESUMING),
        _event("task_selected", task_id="CL-0001", message="Show the price with tax"),
        _event("phase_entered", phase="implement"),
        _event("phase_completed", phase="implement"),
        _event("runner_output", stream="combined", payload={"text": "All 12 tests pass.\n"}),
        _event("blocked_state_changed", message=IDLE["message"], payload=IDLE),
        _event("blocked_state_cleared"),
        _event("queue_snapshot", payload={"paths": RESOLVE_DOCUMENT["paths"]}),
        _event("config_resolved", payload={"config": DOCUMENT}),
        _event("warning", task_id="CL-0001", message="The recorded phase is beyond the phases configured now."),
    )
}
"""Event kind → an event of it."""

DOCUMENTS: Mapping[str, JsonObject] = {
    "ResolveDocument": DOCUMENT,
    "OverviewDocument": OVERVIEW,
    "Session": SESSION,
    "Decision": RESUMING,
    "BlockingState": STALLED,
    "Summary": REFUSED,
    "StopDocument": STOP,
    "ErrorDocument": ERROR,
}
"""Model name → a document."""


@dataclass(frozen=True, slots=True)
class Example:
    """A call and its answer."""

    params: JsonObject
    result: JsonObject


RECORD: JsonObject = {
    "run_id": RUN,
    "mode": "one",
    "state": "finished",
    "started_at": NOW,
    "finished_at": "2026-04-26T06:12:00.000000000Z",
    "summary": SUMMARY,
    "output_bytes": 18,
    "questions": [],
}

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
            "documents": {"config_resolve": 5, "workspace_overview": 1, "run_event": 3, "run_summary": 2, "error": 1},
            "capabilities": ["events", "session.clear"],
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
            "history": "/home/ann/shop/.cueloop/cache/cueloopd/history/2026-04-26T06-00-00Z.jsonc",
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
            "events": {"epoch": EPOCH, "last_seq": 41, "bytes": 65536, "degraded": False},
            "paths": {
                "repo_root": "/home/ann/shop",
                "folder": "/home/ann/shop/.cueloop/cache/cueloopd",
                "socket": "/run/user/1000/cueloopd/5f2a/d.sock",
                "log": "/home/ann/shop/.cueloop/cache/cueloopd/daemon.log",
            },
            "counters": {"requests": 120, "events_published": 41, "gaps_sent": 0},
        },
    ),
    "daemon.shutdown": Example({"runs": "refuse"}, {"pid": 4700, "instance": "d41d8cd98f", "runs_left": []}),
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
        "config_incompatible", "agent.phases is 7; 1 to 3 is allowed.", "/home/ann/shop/.cueloop/config.jsonc"
    ),
    codes.confirmation_required(REFUSING, ETAG, ["resume", "fresh"], SESSION),
    codes.confirmation_stale(ETAG, RESUMING),
    codes.run_active(RUN),
    codes.no_such_run("r9"),
    codes.version_mismatch(
        "This client speaks protocol 2, the daemon protocol 1.",
        {"client": {"min": 2, "max": 2}, "daemon": {"min": 1, "max": 1}},
        "cueloop daemon restart",
    ),
    codes.shutting_down(),
    codes.conflict("The session file is not the one that was shown.", session_etag=ETAG),
    codes.lock_held("run loop", 4242, BEFORE),
    codes.limit_exceeded("A message is larger than 16777216 bytes."),
    codes.runner_unavailable("There is no program claude on the PATH of this run.", "Looked in /usr/bin:/bin."),
    codes.not_writable("The file system is read-only.", "/home/ann/shop/.cueloop/cache"),
)
"""One of each code."""

"""Values that the examples are made of, and one example of each document and run event."""

from __future__ import annotations

from collections.abc import Mapping

from cueloop_protocol import codes
from cueloop_protocol.base import JsonObject
from cueloop_protocol.example_config import RESOLVE_DOCUMENT
from cueloop_protocol.example_doctor import DOCTOR as DOCTOR

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
    "message": "Resume: refusing to choose between the interrupted session for task CL-0001 and a fresh start.",
    "detail": (
        "The saved session is current and stands at phase 2 with 1 completed loop task(s). "
        "Start with --resume to continue it, or with --fresh to leave it behind."
    ),
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
METRICS: JsonObject = {
    "requests": {"config.resolve": 90, "daemon.status": 2, "ping": 28},
    "errors": {"document_unusable": 1},
    "latency": {
        "buckets": [{"le_seconds": 0.0001, "count": 88}, {"le_seconds": 0.005, "count": 119}],
        "count": 120,
        "sum_seconds": 0.0521,
    },
    "events_published": 41,
    "commits": 37,
    "watcher_hints": 12,
    "snapshot_refreshes": 9,
    "runs": {"completed": 1},
    "runs_adopted": 0,
    "open_descriptors": 31,
    "loop_lag_max_seconds": 0.0031,
}
DUMP: JsonObject = {
    "version": 1,
    "made_at": NOW,
    "daemon_version": "0.1.0",
    "python": "3.11.7",
    "platform": "Linux 6.8.0 x86_64",
    "tasks": [
        {"id": 140, "name": "accept", "state": "waiting", "frames": ["server/server.py:172 Server._accept", "(Future)"]},
    ],
    "threads": [{"name": "MainThread", "frames": ["cueloop_daemon/__main__.py:128 main"]}],
    "settings": {"idle_exit_minutes": 30, "log_level": "info"},
    "environment": ["HOME", "PATH"],
    "files": [
        {
            "name": "session",
            "path": "~/shop/.cueloop/cache/session.jsonc",
            "kind": "file",
            "size": 412,
            "mode": "0600",
            "is_ours": True,
            "modified_at": BEFORE,
            "etag": ETAG,
        },
        {"name": "stop marker", "path": "~/shop/.cueloop/cache/stop_requested", "kind": "missing"},
    ],
    "runs": [
        {
            "run_id": RUN,
            "mode": "loop",
            "state": "open",
            "started_at": NOW,
            "lives": 1,
            "steps": [{"key": "phase", "kind": "step", "has_result": False}],
            "children": [{"number": 1, "kind": "agent", "code": 0}],
        }
    ],
    "events": [{"seq": 42, "method": "event", "kind": "run_started", "run_id": RUN}],
    "log": [{"time": NOW, "level": "info", "logger": "app", "event": "serving", "socket": "/run/user/1000/cueloopd/5f2a/d.sock"}],
    "notes": [],
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
    "config_incompatible",
    "The config /home/ann/shop/.cueloop/config.jsonc cannot be used: agent.phases is 7.",
    "Allowed: a whole number from 1 to 3.",
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
    "DoctorDocument": DOCTOR,
}
"""Model name → a document."""

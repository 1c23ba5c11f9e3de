"""A notification in one line for people. Pure. Standard library only."""

from __future__ import annotations

from cueloop_client.shapes import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

KINDS = (
    "run_started",
    "resume_decision",
    "task_selected",
    "phase_entered",
    "phase_completed",
    "runner_output",
    "blocked_state_changed",
    "blocked_state_cleared",
    "queue_snapshot",
    "config_resolved",
    "warning",
)
"""The closed list of `cueloop_protocol.documents.envelope.EventKind`, whose module is too heavy to load for it."""


def is_wanted(method: str, params: Mapping[str, Any], kinds: frozenset[str]) -> bool:
    """Whether a filter by kinds lets the note through; like the daemon's, it is about events alone. No kinds: all."""
    if not kinds or method != "event":
        return True
    event = params.get("event")
    return isinstance(event, dict) and event.get("kind") in kinds


def note_line(method: str, params: Mapping[str, Any]) -> str:
    """When, what, about which task, and the words that came with it; line breaks in those become blanks."""
    event = params.get("event")
    if method == "event" and isinstance(event, dict):
        parts = [text(event.get("timestamp")), text(event.get("kind")), text(event.get("task_id")), _event_words(event)]
    elif method == "gap":
        parts = ["gap", f"events from {text(params.get('from'))} to {text(params.get('to'))} are no longer kept"]
    elif method == "run.finished":
        summary = params.get("summary")
        outcome = text(summary.get("outcome")) if isinstance(summary, dict) else ""
        parts = ["run finished", text(params.get("run_id")), outcome]
    elif method == "question":
        question = params.get("question")
        parts = ["question", text(params.get("run_id")), text(question.get("message")) if isinstance(question, dict) else ""]
    elif method == "question.resolved":
        parts = ["question resolved", text(params.get("run_id")), text(params.get("choice"))]
    else:
        parts = [method]
    return " ".join("  ".join(part for part in parts if part).split("\n"))


def _event_words(event: Mapping[str, Any]) -> str:
    payload = event.get("payload")
    written = text(payload.get("text")) if isinstance(payload, dict) else ""
    return text(event.get("phase")) or text(event.get("message")) or written.rstrip("\n")

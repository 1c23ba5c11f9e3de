"""A notification in one line for people. Pure. Standard library only."""

from __future__ import annotations

from cueloop_client.shapes import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import tzinfo
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


WORDS = {
    "config_resolved": "the configuration, or what the next run would do, changed",
    "queue_snapshot": "the queue changed",
}
"""What is said of events that come without words of their own."""
TIME_WIDTH = len("2026-02-07 10:30:00")
KIND_WIDTH = max(map(len, KINDS))


def is_wanted(method: str, params: Mapping[str, Any], kinds: frozenset[str]) -> bool:
    """Whether a filter by kinds lets the note through; like the daemon's, it is about events alone. No kinds: all."""
    if not kinds or method != "event":
        return True
    event = params.get("event")
    return isinstance(event, dict) and event.get("kind") in kinds


def note_line(method: str, params: Mapping[str, Any], zone: tzinfo | None) -> str:
    """When (in `zone`; None: this machine's), what, about which task, and its words; line breaks in those become blanks."""
    event = params.get("event")
    moment = ""
    if method == "event" and isinstance(event, dict):
        moment = clock_time(text(event.get("timestamp")), zone)
        parts = [text(event.get("kind")), text(event.get("task_id")), _event_words(event)]
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
    what, *rest = parts
    line = "  ".join([f"{moment:<{TIME_WIDTH}}", f"{what:<{KIND_WIDTH}}", *(part for part in rest if part)])
    return " ".join(line.rstrip().split("\n"))


def clock_time(stamp: str, zone: tzinfo | None) -> str:
    """`2026-02-07T10:30:00.000000000Z` as people read it, to the second; what is no time with an offset stays as it is."""
    from datetime import datetime

    try:
        moment = datetime.fromisoformat(stamp)
    except ValueError:
        return stamp
    if moment.tzinfo is None:
        return stamp
    return moment.astimezone(zone).strftime("%Y-%m-%d %H:%M:%S")


def _event_words(event: Mapping[str, Any]) -> str:
    payload = event.get("payload")
    members = payload if isinstance(payload, dict) else {}
    if event.get("kind") == "resume_decision":
        return " ".join(part for part in (text(event.get("message")), text(members.get("detail"))) if part)
    written = text(members.get("text")).rstrip("\n") or text(event.get("phase")) or text(event.get("message"))
    return written or WORDS.get(text(event.get("kind")), "")

"""A run's record in words for people. Pure. Standard library only."""

from __future__ import annotations

from cueloop_client.shapes import count, members, objects, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

STATES = {
    "starting": "is starting",
    "running": "is running",
    "waiting": "waits",
    "asking": "asks, and waits for an answer",
    "stopping": "ends after its current task",
    "cancelling": "is being cancelled",
    "adopting": "is being taken over by a new daemon",
    "finished": "is over",
}
NEXT = {
    "asking": "Answer it: cueloop run attach",
    "finished": "Its output: cueloop run output",
}


def status_lines(record: Mapping[str, Any]) -> list[str]:
    """A headline, what is known below it, and what to do."""
    state, run_id = text(record.get("state")), text(record.get("run_id"))
    lines = [f"Run {run_id} {STATES.get(state, f'is {state}')}."]
    lines += [f"  {name:<9}  {value}" for name, value in _rows(record) if value]
    for question in objects(record.get("questions")):
        lines += ["", f"It asks: {text(question.get('message'))}", f"  {text(question.get('detail'))}"]
    return [*lines, "", NEXT.get(state, "Show it: cueloop run attach")]


def attached_lines(record: Mapping[str, Any]) -> list[str]:
    """What somebody reads who comes in the middle: the headline, and in which phase it is."""
    task, phase = text(record.get("task_id")), text(record.get("phase"))
    where = [f"-- Phase {phase} of {task} goes on. Its output so far: cueloop run output"] if task and phase else []
    return [*status_lines(record)[:1], *where]


def _rows(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    summary, error, decision = (members(record.get(name)) for name in ("summary", "error", "decision"))
    outcome = f"{text(summary.get('outcome'))}, exit code {count(summary.get('exit_code'))}" if summary else ""
    return [
        ("mode", text(record.get("mode"))),
        ("task", text(record.get("task_id"))),
        ("phase", text(record.get("phase"))),
        ("started", text(record.get("started_at"))),
        ("finished", text(record.get("finished_at"))),
        ("decision", text(decision.get("message"))),
        ("outcome", outcome),
        ("blocked", text(members(summary.get("blocking")).get("message"))),
        ("because", " ".join(text(error.get(name)) for name in ("message", "detail")).strip()),
        ("output", f"{count(record.get('output_bytes'))} bytes" if record.get("output_bytes") else ""),
    ]

"""`cueloop daemon list`."""

from __future__ import annotations

from cueloop_client.daemons import LEAVING, NO_SOCKET, NOT_ANSWERING, OTHER_VERSION, daemons
from cueloop_client.session_text import age_text
from cueloop_client.shapes import count, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cueloop_client.context import Context

SECONDS = 2.0
"""All of them together are given this long, unless --timeout says otherwise."""
STATES = {
    NO_SOCKET: "has no socket (it starts just now, or lost it)",
    LEAVING: "is leaving",
    OTHER_VERSION: "speaks another version of the protocol (replace it: cueloop daemon restart)",
}
STARTED = {"demand": "started on demand", "systemd": "started by systemd", "launchd": "started by launchd"}


def run(context: Context) -> int:
    """Say which daemons of this user run on this machine, and how they are. Starts none, and needs no repository."""
    seconds = context.seconds if context.values.has("timeout") else SECONDS
    rows = daemons(context.world, context.world.deadline(seconds))
    if context.json:
        context.print_json({"version": 1, "daemons": rows})
    elif not rows:
        context.print("No daemon of yours runs on this machine.")
    for row in () if context.json else rows:
        context.print_title(_title(row))
        context.print("\n".join(f"  {line}" for line in lines(row)))
    return 0


def lines(row: dict[str, Any]) -> list[str]:
    """One daemon in words, without the title."""
    uptime, memory, connections = row.get("uptime_seconds"), count(row.get("memory_bytes")), row.get("connections")
    state = text(row.get("state"))
    condition = f" ({text(row.get('condition'))})" if state == NOT_ANSWERING and row.get("condition") else ""
    facts = [
        _heir(row),
        f"process {count(row.get('pid'))}" if row.get("pid") else "",
        f"version {text(row.get('daemon_version'))}" if row.get("daemon_version") else "",
        f"up for {age_text(int(uptime))}" if isinstance(uptime, int | float) else "",
        f"{memory / 1_000_000:.0f} MB" if memory else "",
        f"{count(connections)} connection{'' if connections == 1 else 's'}" if connections is not None else "",
        STARTED.get(text(row.get("origin")), ""),
    ]
    run = row.get("active_run")
    return [
        ", ".join([STATES.get(state, state) + condition, *(fact for fact in facts if fact)]),
        *([f"run     {_run(run)}"] if isinstance(run, dict) else []),
        *([f"socket  {printable(text(row.get('socket')))}"] if row.get("socket") else []),
    ]


def _heir(row: dict[str, Any]) -> str:
    """What keeps it from answering, if one daemon takes over from another just now."""
    heir = count(row.get("heir"))
    if not heir:
        return ""
    return "takes over from another just now" if heir == row.get("pid") else f"is being replaced by process {heir}"


def printable(path: str) -> str:
    """The path on one line, whatever is in it."""
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in path)


def _title(row: dict[str, Any]) -> str:
    path = printable(text(row.get("repository"), "a repository that it did not name"))
    return path if row.get("repository_found", True) else f"{path} (moved or deleted)"


def _run(run: dict[str, Any]) -> str:
    words = [text(run.get("run_id")), text(run.get("task_id")), text(run.get("phase")), text(run.get("state"))]
    return ", ".join(word for word in words if word)

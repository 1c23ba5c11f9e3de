"""A session in words for people. Pure. Standard library only."""

from __future__ import annotations

from cueloop_client.shapes import count, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

RUN_LABELS = ("run one", "run loop")
"""What the queue lock of a run says of it; other holders change the queue and no session."""
PHASES = {1: "plan", 2: "implement", 3: "review"}
HEADLINES = {
    "missing": "No interrupted session.",
    "corrupt": "The session file is damaged.",
    "too_large": "The session file is too large to be one, and was not read.",
    "too_new": "The session file was written by a newer version.",
    "unreadable": "The session file cannot be read.",
}
REMEDIES = {
    "loaded": ("To abandon it", "cueloop session clear (its file goes to the history)"),
    "corrupt": ("To abandon it", "cueloop session clear (the damaged file goes to the history, byte for byte)"),
    "too_large": ("To abandon it", "cueloop session clear (the file goes to the history)"),
    "too_new": ("To use it", "install that version; to abandon it: cueloop session clear (the file goes to the history)"),
    "unreadable": ("To use it", "make it a regular file that you may read; as it is, it is never touched"),
}


def headline(found: Mapping[str, Any]) -> str:
    """One line about the result of `session.get`: whose session it is, or what is wrong with the file."""
    state, session = text(found.get("state")), found.get("session")
    if isinstance(session, dict):
        kind = "Session of a run that is under way, for" if _is_in_use(found) else "Interrupted session of"
        return f"{kind} {text(session.get('task_id')).strip()}"
    return HEADLINES.get(state, f"The session file is {state}.")


def particulars(found: Mapping[str, Any]) -> str:
    """The lines below it: age, where it stands, what the next run would do, and what to do. Empty if there is nothing."""
    state, session = text(found.get("state")), found.get("session")
    lines: list[str] = []
    if isinstance(session, dict):
        lines += _rows([("age", _age(found, session)), *_session_rows(session)])
    else:
        rows = [("file", text(found.get("path"))), ("because", text(found.get("detail")))]
        lines += _rows(rows if state != "missing" else [])
    if found.get("settling") is True:
        lines.append("  The file was being written just now; look again in a moment.")
    lines += _next_run_lines(found)
    lines += [] if _is_in_use(found) else _remedy_lines(state)
    return "\n".join(lines)


def _is_in_use(found: Mapping[str, Any]) -> bool:
    return isinstance(found.get("active_run"), dict) or _is_others_run(found.get("queue_lock"))


def _is_others_run(lock: object) -> bool:
    return isinstance(lock, dict) and lock.get("live") is True and text(lock.get("label")) in RUN_LABELS


def age_text(seconds: object) -> str:
    """`90061` → `1 day 1 hour`: the two largest units that are not zero."""
    if not isinstance(seconds, int) or isinstance(seconds, bool):
        return "cannot be told from its time stamp"
    units = (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))
    parts: list[str] = []
    left = seconds
    for name, size in units:
        number, left = divmod(left, size)
        if number:
            parts.append(f"{number} {name}{'' if number == 1 else 's'}")
    return " ".join(parts[:2]) or "0 seconds"


def _session_rows(session: Mapping[str, Any]) -> list[tuple[str, str]]:
    phase = count(session.get("current_phase"))
    limit = count(session.get("max_tasks"))
    own = session.get(f"phase{phase}_settings")  # the session's own are those of the phase in which the task began
    settings = own if isinstance(own, dict) else session
    runner, model = text(settings.get("runner")), text(settings.get("model"))
    return [
        ("started", text(session.get("run_started_at"))),
        ("phase", f"{phase} ({PHASES[phase]})" if phase in PHASES else str(phase)),
        ("iterations", f"{count(session.get('iterations_completed'))} of {count(session.get('iterations_planned'))} done"),
        ("runner", f"{runner}, model {model}" if model else runner),
        ("tasks", f"{count(session.get('tasks_completed_in_loop'))} done in this loop{f', at most {limit}' if limit else ''}"),
        ("commit", text(session.get("git_head_commit"))),
    ]


def _age(found: Mapping[str, Any], session: Mapping[str, Any]) -> str:
    """The age; where it is not known, the time stamp that does not tell it."""
    seconds = found.get("age_seconds")
    stamp = text(session.get("last_updated_at"))
    return age_text(seconds) if isinstance(seconds, int) or not stamp else f"{age_text(seconds)} ({stamp})"


def _next_run_lines(found: Mapping[str, Any]) -> list[str]:
    """What the next run would do, or why nothing can be said of it."""
    run, lock, decision, error = (found.get(name) for name in ("active_run", "queue_lock", "decision", "error"))
    if isinstance(run, dict):
        return ["", f"Run {text(run.get('run_id'))} is at work here.", "  To see it: cueloop run status"]
    if isinstance(lock, dict) and _is_others_run(lock):
        who = f"{text(lock.get('label'))}, process {count(lock.get('pid'))}, since {text(lock.get('started_at'))}"
        return ["", f"Another tool is at work here ({who}).", "  What the next run would do can be said when it is over."]
    if isinstance(decision, dict):
        return ["", f"With --resume, the next run says: {text(decision.get('message'))}", f"  {text(decision.get('detail'))}"]
    if isinstance(error, dict):
        rows = ["", f"The next run cannot start: {text(error.get('message'))}"]
        return [*rows, *(f"  {line}" for line in text(error.get("detail")).splitlines())]
    return []


def _remedy_lines(state: str) -> list[str]:
    if state not in REMEDIES:
        return []
    command, why = REMEDIES[state]
    return ["", f"{command}: {why}"]


def _rows(rows: list[tuple[str, str]]) -> list[str]:
    return [f"  {name:<10}  {value}" for name, value in rows if value]

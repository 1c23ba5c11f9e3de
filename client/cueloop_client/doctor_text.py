"""The doctor document in words for people. Pure. Standard library only."""

from __future__ import annotations

from textwrap import wrap

from cueloop_client.shapes import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

WIDTH = 110
WOULD = {
    "resume": "goes on with",
    "fresh": "begins",
    "refuse": "refuses",
    "ask": "asks you first; where nobody can be asked it refuses",
    "wait": "cannot begin now",
    "idle": "has nothing to run",
    "fail": "fails",
}
DAEMON = {
    "none": "No daemon runs.",
    "silent": "The daemon does not answer.",
    "unusable": "The daemon gives no answer that helps.",
    "not_asked": "The daemon was not asked.",
}
HEADINGS = {"error": "Errors", "warning": "Warnings", "info": "Worth knowing"}


def title(document: Mapping[str, Any]) -> str:
    """The first line: which repository was looked at."""
    return f"The repository {text(_object(document.get('repository')).get('path'))}"


def session_lines(document: Mapping[str, Any]) -> list[str]:
    """The session and the daemon, as a paragraph."""
    daemon = _object(_object(document.get("repository")).get("daemon"))
    state = text(daemon.get("state"))
    told = DAEMON.get(state) or f"The daemon runs (process {daemon.get('pid')}, version {text(daemon.get('version'))})."
    words = [text(word) for word in _list(_object(document.get("preview")).get("words"))]
    return [line for sentence in (*words, told) for line in wrap(sentence, WIDTH, break_long_words=False)]


def next_lines(document: Mapping[str, Any]) -> list[str]:
    """What each kind of run would do now, and why; those that would do the same stand together."""
    lines, before = ["What the next run would do"], ""
    for run in _objects(_object(document.get("preview")).get("next")):
        would, task = text(run.get("would")), text(run.get("task_id"))
        why = f"{text(run.get('message'))} {text(run.get('detail'))}".strip()
        head = f"{WOULD.get(would, would)}{_task(would, task)}"
        if f"{head} {why}" == before:
            head, why = "the same", ""
        else:
            before = f"{head} {why}"
        lines += [f"  {text(run.get('command')):<18}  {head}", *_wrapped(why, 22)]
    return lines


def way_lines(document: Mapping[str, Any]) -> list[str]:
    """The commands to choose from, where there is a session to choose about."""
    ways = _objects(_object(document.get("preview")).get("ways"))
    rows = [(text(way.get("name")), text(way.get("command")), text(way.get("effect"))) for way in ways]
    return ["To choose", *(f"  {name:<6}  {command:<23}  {effect}" for name, command, effect in rows)] if rows else []


def agent_lines(document: Mapping[str, Any]) -> list[str]:
    """Which agents there are, and what the configuration uses them for; traps of those that are installed."""
    lines = ["Agents"]
    for agent in _objects(document.get("agents")):
        used = ", ".join(map(text, _list(agent.get("used_for"))))
        version, problem = text(agent.get("version")), text(agent.get("problem"))
        shown = [problem or version or "installed", text(agent.get("path")), f"for {used}" if used else ""]
        lines.append(f"  {text(agent.get('id')):<9}  {'  '.join(word for word in shown if word)}")
        for trap in map(text, _list(agent.get("traps"))):
            lines += _wrapped(f"known: {trap}", 13)
    return lines


def finding_lines(document: Mapping[str, Any]) -> list[str]:
    """All findings by their severity, each with its cause and what to do."""
    lines: list[str] = []
    findings = _objects(document.get("findings"))
    for severity, heading in HEADINGS.items():
        group = [finding for finding in findings if finding.get("severity") == severity]
        if group:
            lines += ["", heading] if lines else [heading]
        for finding in group:
            lines += _wrapped(f"{text(finding.get('message'))} [{text(finding.get('code'))}]", 2)
            lines += _wrapped(f"because: {text(finding.get('cause'))}", 6)
            lines += _wrapped(f"do: {text(finding.get('fix'))}", 6)
    return lines


def verdict_lines(document: Mapping[str, Any]) -> list[str]:
    """The last line."""
    severities = [finding.get("severity") for finding in _objects(document.get("findings"))]
    errors, warnings = severities.count("error"), severities.count("warning")
    if errors:
        return [f"{_count(errors, 'error')} and {_count(warnings, 'warning')}: not everything works here."]
    return [f"No errors, {_count(warnings, 'warning')}." if warnings else "Nothing is wrong here."]


SECTIONS: Sequence[Callable[[Mapping[str, Any]], list[str]]] = (
    session_lines,
    next_lines,
    way_lines,
    agent_lines,
    finding_lines,
    verdict_lines,
)


def _task(would: str, task: str) -> str:
    return f" {task}" if task and would in ("resume", "fresh") else f" ({task})" if task else " anew" if would == "fresh" else ""


def _count(number: int, word: str) -> str:
    return f"{number or 'no'} {word}{'' if number == 1 else 's'}"


def _wrapped(sentence: str, indent: int) -> list[str]:
    """Lines of at most WIDTH characters; commands and paths are not broken."""
    blanks = " " * indent
    return [
        line
        for part in sentence.splitlines()
        for line in wrap(
            part, WIDTH, initial_indent=blanks, subsequent_indent=blanks, break_long_words=False, break_on_hyphens=False
        )
    ]


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _objects(value: object) -> list[dict[str, Any]]:
    return [item for item in _list(value) if isinstance(item, dict)]


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}

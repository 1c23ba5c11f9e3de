"""Candidates that only the repository knows, from its daemon if one runs, else from this process. Starts none. Standard library only."""

from __future__ import annotations

from cueloop_client.complete_values import Candidate, Live
from cueloop_client.context import Context
from cueloop_client.fast import read
from cueloop_client.flags import Values
from cueloop_client.shapes import answer, member, text
from cueloop_client.table import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from cueloop_client.world import World

OVER = ("done", "rejected")


def live(source: Live, given: Mapping[str, str], world: World, seconds: float) -> tuple[Candidate, ...]:
    """What the repository that the options mean has of this. Raises RpcError, Failure and whatever else reading raises."""
    if "host" in given or ("repo" not in given and world.environ.get("CUELOOP_HOST")):
        return ()  # a login takes longer than anybody waits for a Tab
    context = _context(given, world, seconds)
    match source.name:
        case "tasks":
            return _tasks(member(answer(read(context, "workspace.overview", {}, may_start=False)), "document"))
        case "runs":
            return _runs(answer(read(context, "run.list", {"limit": 50}, may_start=False)))
        case _:
            document = member(answer(read(context, "config.resolve", {}, may_start=False)), "document")
            return _runners(document) if source.name == "runners" else _profiles(document)


def _context(given: Mapping[str, str], world: World, seconds: float) -> Context:
    """That of a reading command for the same repository. A folder's `~` is still as it was typed."""
    options = {name: (given[name],) for name in ("repo", "no-daemon") if name in given}
    home = world.environ.get("HOME", "")
    if "repo" in options and (given["repo"] == "~" or given["repo"].startswith("~/")):
        options["repo"] = (home + given["repo"][1:],)
    return Context(world, COMMANDS["machine", "workspace", "overview"], Values(options, ()), seconds)


def _tasks(document: dict[str, Any]) -> tuple[Candidate, ...]:
    """Those that can be named to a run, in the queue's order."""
    rows = _rows(member(member(document, "queue"), "active").get("tasks"))
    return tuple(
        Candidate(text(row.get("id")).strip(), _with(text(row.get("title")), text(row.get("status")), usual="todo"))
        for row in rows
        if text(row.get("status")) not in OVER and row.get("kind") != "group"
    )


def _runs(listed: dict[str, Any]) -> tuple[Candidate, ...]:
    """Newest first."""
    return tuple(
        Candidate(
            text(row.get("run_id")),
            " ".join(filter(None, (text(row.get("started_at"))[:19], text(row.get("mode")), text(row.get("task_id"))))),
        )
        for row in _rows(listed.get("runs"))
    )


def _runners(document: dict[str, Any]) -> tuple[Candidate, ...]:
    rows = _rows(member(document, "execution_controls").get("runners"))
    return tuple(Candidate(text(row.get("id")), text(row.get("display_name"))) for row in rows)


def _profiles(document: dict[str, Any]) -> tuple[Candidate, ...]:
    profiles = member(document, "config").get("profiles")
    return tuple(map(Candidate, profiles)) if isinstance(profiles, dict) else ()


def _rows(value: object) -> list[dict[str, Any]]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def _with(title: str, status: str, *, usual: str) -> str:
    return title if status in ("", usual) else f"{title} ({status})"

"""`--dry-run`: what a run would do about an interrupted session, and which task it would take. Standard library only."""

from __future__ import annotations

from cueloop_client.fast import read
from cueloop_client.run_begin import is_interactive
from cueloop_client.run_request import run_params
from cueloop_client.shapes import answer, member, members, objects, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from cueloop_client.context import Context

REQUEST = ("mode", "task_id", "resume", "fresh", "interactive")


def show_what_would_be(context: Context, mode: str) -> int:
    """Print the decision and the task; exit code 1 where the run would be refused. Changes nothing. Raises RpcError and Usage."""
    asks = is_interactive(context)
    params = run_params(mode, context.values, interactive=asks)
    request = {name: params[name] for name in REQUEST if name in params}
    preview = answer(read(context, "resume.preview", {"request": request}))
    overview = answer(read(context, "workspace.overview", {}))
    queue = member(member(overview, "document"), "queue")
    decision = preview.get("decision")
    decided = members(decision)
    choices = preview.get("choices")
    is_asked = asks and isinstance(choices, list) and bool(choices)
    is_refused = text(decided.get("status")) == "refusing_to_resume" and not is_asked
    drafts = context.values.has("include-draft")
    task = None if is_refused else expected_task(queue, decided, params.get("task_id"), include_drafts=drafts)
    if context.json:
        active = overview.get("active_run")
        told = {"decision": decision, "would_ask": is_asked, "task": task, "active_run": active}
        context.print_json({name: value for name, value in told.items() if value is not None})
    else:
        context.print("\n".join(_lines(decided, is_asked, is_refused, task, queue, overview.get("active_run"))))
    return 1 if is_refused else 0


def expected_task(
    queue: Mapping[str, Any], decision: Mapping[str, Any], named: str | None, *, include_drafts: bool
) -> dict[str, Any] | None:
    """Id, title and status of the task that would run; None if none would. A queue that is not valid has none."""
    active = objects(members(queue.get("active")).get("tasks"))
    titles = {text(task.get("id")).strip(): text(task.get("title")) for task in active}
    rows = objects(members(queue.get("runnability")).get("tasks"))
    if text(decision.get("status")) == "resuming_same_session":
        named = text(decision.get("task_id"))
    fitting = [row for row in rows if named is None or text(row.get("id")).strip() == named.strip()]
    for status in ("doing", "todo", "draft"):
        for row in fitting:
            if text(row.get("status")) == status and _can_run(row, status, include_drafts):
                name = text(row.get("id")).strip()
                return {"id": name, "title": titles.get(name, ""), "status": status}
    return None


def _can_run(row: Mapping[str, Any], status: str, include_drafts: bool) -> bool:
    if status != "draft":
        return row.get("runnable") is True or (status == "doing" and text(row.get("kind"), "work_item") != "group")
    return include_drafts and {text(reason.get("kind")) for reason in objects(row.get("reasons"))} <= {"draft_excluded"}


def _lines(
    decision: Mapping[str, Any],
    is_asked: bool,
    is_refused: bool,
    task: Mapping[str, Any] | None,
    queue: Mapping[str, Any],
    active_run: object,
) -> list[str]:
    lines = [text(decision.get(name)) for name in ("message", "detail")] if decision else ["No interrupted session."]
    if is_asked:
        lines.append("You would be asked what to do about it.")
    if task is not None:
        lines.append(f"Task: {task['id']} ({task['status']}): {task['title']}")
    elif not is_refused:
        summary = members(members(queue.get("runnability")).get("summary"))
        lines.append(text(members(summary.get("blocking")).get("message")) or "No task can be run.")
    if isinstance(active_run, dict):
        lines.append(f"Run {text(active_run.get('run_id'))} is active: another one cannot be started before it is over.")
    return [line for line in lines if line] + ["Nothing was changed."]

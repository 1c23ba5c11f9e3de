"""The session of a task as it begins, or as it goes on from the one that was left."""

from __future__ import annotations

from pydantic import TypeAdapter

from cueloop_daemon.core.runs.beginning import Chosen
from cueloop_daemon.core.runs.taking_up import Count, TakenUp, first_phase, last_phase
from cueloop_daemon.runners import Effective, effective
from cueloop_daemon.runs.program.common import beside
from cueloop_daemon.runs.types import Journal, World
from cueloop_protocol.documents.queue import TaskAgent
from cueloop_protocol.documents.session import PhaseSettings, Session

AGENT: TypeAdapter[TaskAgent | None] = TypeAdapter(TaskAgent | None)

MOST_ITERATIONS = 255
"""The session's fields hold no more."""


def new_session(
    world: World,
    chosen: Chosen,
    own: TaskAgent | None,
    work: TakenUp,
    count: Count,
    *,
    session_id: str,
    at: str,
    head: str | None,
) -> Session:
    """`at` is the present moment, RFC 3339. The settings in it are for display: they are computed anew in each phase."""
    old = chosen.session
    phases = range(first_phase(work.phases), last_phase(work.phases) + 1)
    now = _settings(world, own, work.phase)
    return Session.model_validate(
        {
            "version": 1,
            "session_id": session_id,
            "task_id": chosen.task_id,
            "run_started_at": at if old is None else old.run_started_at,
            "last_updated_at": at,
            "iterations_planned": min(work.iterations, MOST_ITERATIONS),
            "iterations_completed": 0 if old is None else min(old.iterations_completed, work.iterations),
            "current_phase": work.phase,
            "runner": now.runner,
            "model": now.model,
            "tasks_completed_in_loop": count.done,
            "max_tasks": count.limit,
            "git_head_commit": head,
            **{f"phase{n}_settings": _settings(world, own, n).model_dump(mode="json", exclude_none=True) for n in phases},
        }
    )


async def own_agent(task_id: str, journal: Journal, world: World) -> TaskAgent | None:
    """What the task says of its agents, the same in each life; once in a scope."""

    async def look() -> TaskAgent | None:
        task = await beside(world.files.task, task_id)()
        return None if task is None else task.agent

    return await journal.note("agent", look, AGENT)


def _settings(world: World, own: TaskAgent | None, phase: int) -> PhaseSettings:
    """What is configured stands in for settings that cannot be used; the phase itself will say so."""
    found = effective(world.config, own, world.run.params.overrides, phase, world.plugins)
    if isinstance(found, Effective):
        chosen = found.settings
        return PhaseSettings.model_validate({"runner": chosen.runner, "model": chosen.model, "reasoning_effort": chosen.effort})
    return PhaseSettings.model_validate({"runner": world.config.agent.runner, "model": world.config.agent.model})

"""Where a task is taken up: phases, iterations and the loop's count, from configuration, task, call and session. Pure."""

from __future__ import annotations

from cueloop_protocol.documents.config import Agent
from cueloop_protocol.documents.queue import TaskAgent
from cueloop_protocol.documents.session import Session
from cueloop_protocol.overrides import Overrides
from cueloop_protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class Count:
    """The loop-wide count of finished tasks, and its limit; 0: no limit."""

    done: int
    limit: int


@dataclass(frozen=True, slots=True)
class TakenUp:
    """Where the work begins. `phase` is 1 plan, 2 implement (also of a single phase), 3 review; `iteration` counts from 1."""

    phases: int
    phase: int
    iterations: int
    iteration: int
    is_worked: bool
    """All iterations had been completed when the session was left: only the CI gate, and what follows it, is still to come."""
    warnings: tuple[str, ...] = ()


def last_phase(phases: int) -> int:
    """The number of the last phase."""
    return 3 if phases == 3 else 2


def first_phase(phases: int) -> int:
    """The number of the first phase."""
    return 2 if phases == 1 else 1


def taken_up(agent: Agent, task: TaskAgent | None, call: Overrides, session: Session | None) -> TakenUp:
    """Call > task > configuration, computed anew on resume; `session` is the one that is resumed, None: the task begins."""
    phases = 1 if call.quick else call.phases or (task and task.phases) or agent.phases
    iterations = (task and task.iterations) or agent.iterations
    if session is None:
        return TakenUp(phases, first_phase(phases), iterations, 1, is_worked=False)
    last, phase = last_phase(phases), max(session.current_phase, first_phase(phases))
    warnings: tuple[str, ...] = ()
    if phase > last:
        named = "one phase" if phases == 1 else f"{phases} phases"
        warnings = (f"The session is in phase {phase}; this run has {named}, so it goes on in the last.",)
        phase = last
    completed = session.iterations_completed
    if completed >= max(iterations, session.iterations_planned):
        return TakenUp(phases, last, iterations, iterations, is_worked=True, warnings=warnings)
    # The iteration that was under way is finished, also where fewer are wanted by now.
    return TakenUp(phases, phase, max(iterations, completed + 1), completed + 1, is_worked=False, warnings=warnings)


def count_of(mode: str, wanted: int | None, so_far: Count, session: Session | None) -> Count:
    """The count of a run of `mode` with a task. `wanted` is the call's limit; `session` the one that the run resumes, if it does.

    `run one` writes 1. The saved count and limit go on, unless the call gives its own limit.
    """
    done = so_far.done if session is None else session.tasks_completed_in_loop
    if mode == "one":
        return Count(done, 1)
    saved = so_far.limit if session is None else session.max_tasks
    return Count(done, saved if wanted is None else wanted)


def is_reached(count: Count) -> bool:
    """Whether the loop has done as many tasks as it may."""
    return 0 < count.limit <= count.done

"""Scope `phase`: one phase of one iteration, from its session write to its completion."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial

import anyio.to_thread
from cueloop_protocol.documents.envelope import PhaseCompleted, PhaseEntered
from cueloop_protocol.documents.queue import Task
from pydantic import TypeAdapter

from cueloop_daemon.core.runs import ends
from cueloop_daemon.runners import Effective, Refused, Runner, Settings, UnknownRunner, effective, install_hint, runner_for
from cueloop_daemon.runs.program.common import FLAG, MAYBE_TEXT, NOTHING, TEXT, failed, mode_of, moment, warn
from cueloop_daemon.runs.program.gate import pass_gate
from cueloop_daemon.runs.program.heartbeat import with_heartbeat
from cueloop_daemon.runs.program.talk import Scene, Trouble, talk
from cueloop_daemon.runs.program.written import WRITTEN, Written, written
from cueloop_daemon.runs.state import FailState, State, TaskState
from cueloop_daemon.runs.types import Journal, World

PLAN_LIMIT = 4 * 1024 * 1024
TASK: TypeAdapter[Task | None] = TypeAdapter(Task | None)


@dataclass(frozen=True, slots=True)
class _Unusable:
    code: str
    message: str
    detail: str


async def run_phase(state: State, journal: Journal, world: World) -> State:
    """The next phase, iteration or scope."""
    assert state.task is not None
    task = await _where_inputs_are(state.task, journal, world)
    state = state.model_copy(update={"task": task})
    own = await journal.note("task", lambda: _whole(world, task.task_id), TASK)
    chosen = _choose(world, own, task)
    if isinstance(chosen, _Unusable):
        await _write(state, task, journal, world)
        await warn(journal, world, "unusable", chosen.message, task_id=task.task_id)
        return failed(state, ends.error(chosen.code, chosen.message, chosen.detail))
    settings, runner, warnings = chosen
    asks = runner.version_argv(settings)
    if asks is not None:
        runner = runner.with_version(await journal.note("version", partial(world.version_text, asks), TEXT))
    for number, text in enumerate(warnings):
        await warn(journal, world, f"settings/{number}", text, task_id=task.task_id)
    task = await _write(state, task, journal, world)
    scene = Scene(journal, world, task, own, settings, runner)
    world.show(task_id=task.task_id, phase=scene.word, state="running")
    at = await moment(journal, world, "entered/at")
    await journal.emit("entered", PhaseEntered(timestamp=at, run_mode=mode_of(world), task_id=task.task_id, phase=scene.word))
    trouble = await with_heartbeat(journal, world, task.session, lambda: _work(scene))
    state = state.model_copy(update={"task": task})
    if trouble is not None:
        return state.model_copy(update={"next": "fail", "fail": _fail_state(trouble)})
    at = await moment(journal, world, "completed/at")
    await journal.emit("completed", PhaseCompleted(timestamp=at, run_mode=mode_of(world), task_id=task.task_id, phase=scene.word))
    return await _next(state, task, journal, world)


async def _work(scene: Scene) -> Trouble | None:
    """Everything that an agent does in this phase; what went wrong for good, or None."""
    task, journal = scene.task, scene.journal
    is_plan = task.phases > 1 and task.phase == 1
    before = await journal.note("tree/before", scene.world.trees.now, MAYBE_TEXT) if is_plan else None
    continues = task.message is not None or (task.is_resumed and await _has_conversation(scene))
    if task.message is not None:
        trouble = await talk(scene, "invoke", "answer", {"message": task.message}, resume=True)
    elif continues:
        trouble = await talk(scene, "invoke", "interrupted", {"reason": "the run was interrupted"}, resume=True)
    else:
        trouble = await talk(scene, "invoke", scene.prompt_name, {}, resume=False)
    if trouble is None and is_plan:
        trouble = await _check_plan(scene, before)
    if trouble is None and task.phases == 3 and task.phase == 2:
        await journal.converge("hand-off", lambda again: _hand_off(scene), NOTHING)
    if trouble is None and task.phase == (2 if task.phases < 3 else 3) and scene.world.config.agent.ci_gate.enabled:
        trouble = await pass_gate(scene)
    return trouble


async def _check_plan(scene: Scene, before: str | None) -> Trouble | None:
    """A plan must be there and nothing else may have changed; the agent may mend it once."""
    for attempt in range(2):
        empty = await scene.journal.note(f"plan/{attempt}/empty", lambda: _is_plan_empty(scene), FLAG)
        after = await scene.journal.note(f"plan/{attempt}/after", scene.world.trees.now, MAYBE_TEXT)
        changed = before is not None and after is not None and before != after
        if not empty and not changed:
            return None
        name = "plan_changed" if changed else "plan_empty"
        if attempt == 0:
            trouble = await talk(scene, "mend", name, {"files": "See `git status`."}, resume=True)
            if trouble is not None:
                return trouble
    reason = "The plan phase changed files of the repository." if changed else f"The plan {scene.plan_path} is empty or missing."
    return Trouble("plan", ends.error("unknown", reason, "Look at what the agent wrote, then resume or start fresh."), reason)


async def _next(state: State, task: TaskState, journal: Journal, world: World) -> State:
    """The phase after this one, the next iteration, or the end of the task's work."""
    last = 2 if task.phases < 3 else 3
    if task.phase < last:
        task = task.model_copy(update={"phase": task.phase + 1, "is_resumed": False, "message": None})
        return state.model_copy(update={"task": task, "next": "phase"})
    session = task.session.model_copy(update={"iterations_completed": min(task.iteration, 255)})
    result = await journal.converge("iteration", lambda again: _save(world, session), WRITTEN)
    await _tell_foreign(result, "iteration", journal, world)
    first = 2 if task.phases == 1 else 1
    task = task.model_copy(
        update={"session": session, "iteration": task.iteration + 1, "phase": first, "is_resumed": False, "message": None}
    )
    return state.model_copy(update={"task": task, "next": "phase" if task.iteration <= session.iterations_planned else "finish"})


async def _write(state: State, task: TaskState, journal: Journal, world: World) -> TaskState:
    """The session before the phase; where it says so already, as after `begin`, it is not written again."""
    session = task.session.model_copy(update={"current_phase": task.phase, "tasks_completed_in_loop": state.tasks_done})
    if session != task.session:
        result = await journal.converge("session", lambda again: _save(world, session), WRITTEN)
        await _tell_foreign(result, "session", journal, world)
    return task.model_copy(update={"session": session})


async def _tell_foreign(result: Written, key: str, journal: Journal, world: World) -> None:
    for number, path in enumerate(result.foreign):
        await warn(journal, world, f"{key}/foreign/{number}", f"Somebody else wrote the session file; theirs is kept as {path}.")
    if result.deleted:
        await warn(journal, world, f"{key}/deleted", "Somebody removed the session file during the run; it was written again.")


async def _save(world: World, session: object) -> Written:
    return written(await world.sessions.save(session))  # type: ignore[arg-type]  # a Session; the lambda loses its type


async def _whole(world: World, task_id: str) -> Task | None:
    return world.files.task(task_id)


async def _where_inputs_are(task: TaskState, journal: Journal, world: World) -> TaskState:
    """A resumed phase whose inputs are gone goes back to the last one whose inputs exist, and says so."""
    if not task.is_resumed or task.phases == 1 or task.phase == 1:
        return task
    there = await journal.note("inputs", lambda: _inputs(world, task), TEXT)
    phase = min(task.phase, int(there))
    if phase == task.phase:
        return task
    await warn(
        journal,
        world,
        "inputs/said",
        f"The session is in phase {task.phase}, whose inputs are missing; task {task.task_id} goes on from phase {phase}.",
        task_id=task.task_id,
    )
    return task.model_copy(update={"phase": phase})


async def _inputs(world: World, task: TaskState) -> str:
    """The last phase whose inputs exist, as text."""

    def look() -> str:
        plan = world.root.join(".cueloop", "cache", "plans", f"{task.task_id}.md")
        hand_off = world.root.join(".cueloop", "cache", "phase2_final", f"{task.task_id}.md")
        if not _has_text(plan):
            return "1"
        return "3" if task.phases == 3 and os.path.isfile(hand_off) else "2"

    return await anyio.to_thread.run_sync(look)


def _has_text(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return bool(file.read(PLAN_LIMIT).strip())
    except OSError:
        return False


async def _is_plan_empty(scene: Scene) -> bool:
    return not await anyio.to_thread.run_sync(_has_text, scene.plan_io)


async def _hand_off(scene: Scene) -> None:
    """The implementing agent's last message, for the review."""

    def write() -> None:
        folder = scene.world.root.join(".cueloop", "cache", "phase2_final")
        os.makedirs(folder, exist_ok=True)
        temporary = f"{folder}/.{scene.task.task_id}.{scene.world.run.run_id}.new"
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(scene.last_text + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, f"{folder}/{scene.task.task_id}.md")

    await anyio.to_thread.run_sync(write)


async def _has_conversation(scene: Scene) -> bool:
    return await scene.journal.note("conversation/there", lambda: scene.find_conversation(), MAYBE_TEXT) is not None


def _choose(world: World, own: Task | None, task: TaskState) -> tuple[Settings, Runner, tuple[str, ...]] | _Unusable:
    agent = own.agent if own is not None else None
    found = effective(world.config, agent, world.run.params.overrides, task.phase, world.plugins, iteration=task.iteration)
    if isinstance(found, UnknownRunner):
        return _Unusable("cli_unavailable", found.message, found.detail)
    if isinstance(found, Refused):
        return _Unusable("config_incompatible", found.message, found.detail)
    assert isinstance(found, Effective)
    runner = runner_for(found.settings.runner, world.plugins)
    if isinstance(runner, UnknownRunner):
        return _Unusable("cli_unavailable", runner.message, f"{runner.detail} {install_hint(runner.id)}")
    return found.settings, runner, found.warnings


def _fail_state(trouble: Trouble) -> FailState:
    return FailState(
        kind=trouble.kind,
        reason=trouble.reason,
        error=trouble.error,
        exit_code=trouble.exit_code,
        pattern=trouble.pattern,
    )

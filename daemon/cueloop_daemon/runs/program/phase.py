"""Scope `phase`: one phase of one iteration, from its session write to its completion."""

from __future__ import annotations

from functools import partial

from cueloop_daemon.core.runs import ends
from cueloop_daemon.core.runs.taking_up import first_phase, last_phase
from cueloop_daemon.runners import Refused, Runner, Settings, UnknownRunner, effective, install_hint, runner_for
from cueloop_daemon.runs.program.common import (
    FLAG,
    MAYBE_TEXT,
    NUMBER,
    TEXT,
    failed,
    later,
    mode_of,
    moment,
    warn,
)
from cueloop_daemon.runs.program.gate import pass_gate
from cueloop_daemon.runs.program.heartbeat import with_heartbeat
from cueloop_daemon.runs.program.inputs import check_plan, hand_off, where_inputs_are
from cueloop_daemon.runs.program.scene import Part, Scene, Words
from cueloop_daemon.runs.program.sessions import MOST_ITERATIONS, own_agent
from cueloop_daemon.runs.program.talk import talk
from cueloop_daemon.runs.program.written import save
from cueloop_daemon.runs.state import FailState, State, TaskState
from cueloop_daemon.runs.types import Journal, World
from cueloop_protocol.documents.envelope import PhaseCompleted, PhaseEntered
from cueloop_protocol.documents.queue import TaskAgent
from cueloop_protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class _Chosen:
    settings: Settings
    runner: Runner
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Unusable:
    code: str
    message: str
    detail: str


async def run_phase(state: State, journal: Journal, world: World) -> State:
    """The next phase, iteration or scope."""
    assert state.task is not None
    await journal.heed()
    task = await where_inputs_are(state.task, journal, world)
    own = await own_agent(task.task_id, journal, world)
    chosen = _choose(world, own, task)
    task = await _write(state, task, journal, world)
    state = state.model_copy(update={"task": task})
    if isinstance(chosen, _Unusable):
        await warn(journal, world, "unusable", chosen.message, task_id=task.task_id)
        return failed(state, ends.error(chosen.code, chosen.message, chosen.detail))
    scene = await _scene(task, chosen, journal, world)
    at = await moment(journal, world, "entered/at")
    await journal.emit("entered", PhaseEntered(timestamp=at, run_mode=mode_of(world), task_id=task.task_id, phase=scene.word))
    trouble = await with_heartbeat(journal, world, task.session, lambda: _work(scene))
    task = task.model_copy(update={"seconds": scene.seconds, "fresh_starts": scene.fresh_starts})
    if trouble is not None:
        return state.model_copy(update={"task": task, "next": "fail", "fail": trouble})
    at = await moment(journal, world, "completed/at")
    await journal.emit("completed", PhaseCompleted(timestamp=at, run_mode=mode_of(world), task_id=task.task_id, phase=scene.word))
    return await _next(state, task, journal, world)


async def _scene(task: TaskState, chosen: _Chosen, journal: Journal, world: World) -> Scene:
    """Who works in this phase. The seconds of our own ids are taken once for each phase of an iteration."""
    runner = chosen.runner
    asks = runner.version_argv(chosen.settings)
    if asks is not None:
        runner = runner.with_version(await journal.note("version", partial(world.version_text, asks), TEXT))
    for number, text in enumerate(chosen.warnings):
        await warn(journal, world, f"settings/{number}", text, task_id=task.task_id)
    seconds = await journal.note("seconds", later(lambda: task.seconds or _seconds(task, world)), NUMBER)
    scene = Scene(journal, world, task, seconds, chosen.settings, runner, task.fresh_starts)
    world.show(task_id=task.task_id, phase=scene.word, state="running")
    return scene


def _seconds(task: TaskState, world: World) -> int:
    return max(int(world.now().timestamp()), task.last_seconds + 1)


async def _work(scene: Scene) -> FailState | None:
    """Everything that an agent does in this phase; what went wrong for good, or None."""
    task, journal = scene.task, scene.journal
    is_plan = task.phases > 1 and task.phase == 1
    before = await journal.note("tree/before", scene.world.trees.now, MAYBE_TEXT) if is_plan else None
    trouble = None if task.is_worked else await _begin_or_go_on(scene)
    if trouble is None and is_plan:
        trouble = await check_plan(scene, before)
    if trouble is None and task.phases == 3 and task.phase == 2:
        await hand_off(scene)
    if trouble is None and task.phase == last_phase(task.phases) and scene.world.config.agent.ci_gate.enabled:
        trouble = await pass_gate(scene)
    return trouble


async def _begin_or_go_on(scene: Scene) -> FailState | None:
    """The phase's prompt; but an answer to a question, or an interrupted conversation, is gone on with."""
    task, opening = scene.task, scene.opening()
    if task.message is not None:
        part = Part("answer", {"message": task.message})
    elif task.is_resumed and await scene.journal.note("begun", later(lambda: scene.known_conversation() is not None), FLAG):
        part = Part("interrupted", {"reason": "the run was interrupted"})
    else:
        return await talk(scene, "invoke", Words((opening,), (opening,)), resume=False)
    return await talk(scene, "invoke", Words((opening, part), (part,)), resume=True)


async def _next(state: State, task: TaskState, journal: Journal, world: World) -> State:
    """The phase after this one, the next iteration, or the end of the task's work.

    The session leads there before the scope is over: whoever resumes it neither repeats what is done here nor passes over a phase
    of the next iteration.
    """
    ids = {"seconds": None, "last_seconds": task.seconds or 0, "fresh_starts": 0}
    fresh = {"is_resumed": False, "is_worked": False, "message": None, **ids}
    if task.phase < last_phase(task.phases):
        session = task.session.model_copy(update={"current_phase": task.phase + 1})
        etag = await save(journal, world, "moved", session)
        moved = {"session": session, "session_etag": etag, "phase": task.phase + 1}
        return state.model_copy(update={"task": task.model_copy(update={**fresh, **moved}), "next": "phase"})
    is_last = task.iteration >= task.iterations
    first = first_phase(task.phases)
    reached = {"iterations_completed": min(task.iteration, MOST_ITERATIONS), "current_phase": task.phase if is_last else first}
    session = task.session.model_copy(update=reached)
    etag = await save(journal, world, "iteration", session)
    moved = {"session": session, "session_etag": etag, "iteration": task.iteration + 1, "phase": first}
    after = task.model_copy(update={**fresh, **moved})
    return state.model_copy(update={"task": after, "next": "finish" if is_last else "phase"})


async def _write(state: State, task: TaskState, journal: Journal, world: World) -> TaskState:
    """The session before the phase; where it says so already, as after `begin` or another phase, it is not written again."""
    session = task.session.model_copy(update={"current_phase": task.phase, "tasks_completed_in_loop": state.tasks_done})
    if session == task.session:
        return task
    etag = await save(journal, world, "session", session)
    return task.model_copy(update={"session": session, "session_etag": etag})


def _choose(world: World, own: TaskAgent | None, task: TaskState) -> _Chosen | _Unusable:
    found = effective(world.config, own, world.run.params.overrides, task.phase, world.plugins, iteration=task.iteration)
    if isinstance(found, UnknownRunner):
        return _Unusable("cli_unavailable", found.message, found.detail)
    if isinstance(found, Refused):
        return _Unusable("config_incompatible", found.message, found.detail)
    runner = runner_for(found.settings.runner, world.plugins)
    if isinstance(runner, UnknownRunner):
        return _Unusable("cli_unavailable", runner.message, f"{runner.detail} {install_hint(runner.id)}")
    return _Chosen(found.settings, runner, found.warnings)

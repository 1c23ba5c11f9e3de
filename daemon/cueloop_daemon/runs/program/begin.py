"""Scope `begin`: take the queue lock, settle what is owed, decide again, choose a task, and write that it has begun."""

from __future__ import annotations

from cueloop_protocol.documents.envelope import TaskSelected
from cueloop_protocol.documents.session import PhaseSettings, Session
from pydantic import BaseModel, ConfigDict, TypeAdapter

from cueloop_daemon.core.request import Request, UnderLock, again_under_lock
from cueloop_daemon.core.runs import ends
from cueloop_daemon.core.runs.beginning import BEGINNING, Bad, Chosen, Nothing, Refused, Wish, begin
from cueloop_daemon.runners import Effective, effective
from cueloop_daemon.runs.program.begin_events import queue_changed
from cueloop_daemon.runs.program.between import OVER
from cueloop_daemon.runs.program.common import (
    FLAG,
    MAYBE_TEXT,
    TEXT,
    blocked,
    decided,
    ended,
    failed,
    failed_with,
    later,
    mode_of,
    moment,
    warn,
)
from cueloop_daemon.runs.program.locking import Held, lock_queue, unlock_queue
from cueloop_daemon.runs.program.open import first_request
from cueloop_daemon.runs.program.owed import settle_owed
from cueloop_daemon.runs.program.written import WRITTEN, Written, written
from cueloop_daemon.runs.state import Ending, State, TaskState
from cueloop_daemon.runs.types import Baseline, Journal, World


class _Kept(BaseModel):
    model_config = ConfigDict(frozen=True, defer_build=True)

    commit: str | None
    head: str | None
    was_dirty: bool


KEPT: TypeAdapter[_Kept] = TypeAdapter(_Kept)


async def begin_task(state: State, journal: Journal, world: World) -> State:
    """The next task, begun; or the ending that there is instead."""
    held = await lock_queue(state, journal, world)
    if isinstance(held, Held):
        blocking = held.state
        await blocked(journal, world, "lock/blocked", blocking)
        error = ends.error("resource_busy", blocking.message, blocking.detail)
        return ended(state, Ending(outcome="stalled", exit_code=1, blocking=blocking, error=error))
    if state.number == 0:
        await settle_owed(journal, world)
    found = await journal.note("beginning", lambda: _look(state, world), BEGINNING)
    if found.decision is not None and state.number == 0:
        await decided(journal, world, "decision", found.decision)
    match found:
        case Refused(decision=decision):
            if state.number > 0:
                await decided(journal, world, "decision", decision)
            blocking = ends.refused(decision, await moment(journal, world, "refused/observed"))
            await blocked(journal, world, "refused", blocking)
            code = ends.exit_of_refusal(mode_of(world))
            said = ends.error("unknown", decision.message, decision.detail) if code else None
            return ended(state, Ending(outcome="stalled", exit_code=code, blocking=blocking, error=said))
        case Bad():
            await warn(journal, world, "bad", found.message)
            return failed(state, ends.error(found.code, found.message, found.detail))
        case Nothing(blocking=blocking):
            return await _nothing(state, blocking.reason.kind, found, journal, world)
        case Chosen():
            return await _start(state, found, journal, world)


async def _look(state: State, world: World) -> Refused | Bad | Nothing | Chosen:
    if state.number == 0:
        request = again_under_lock(first_request(world), state.decision)
    else:
        request = Request(mode="loop", resume=False, include_draft=state.include_draft, under_lock=UnderLock(None))
    return begin(await world.look(), Wish(request, state.number == 0), world.now())


async def _nothing(state: State, kind: str, found: Nothing, journal: Journal, world: World) -> State:
    """Wait for work where that is wanted; else say why there is none, and end."""
    flags, loop = world.run.params.overrides, world.config.loop
    waits = flags.wait_when_empty or loop.wait_when_empty if kind == "idle" else flags.wait_when_blocked or loop.wait_when_blocked
    if mode_of(world) == "loop" and waits and state.wait_until != OVER:
        if state.wait_until is None:
            await blocked(journal, world, "waiting", found.blocking)
        await unlock_queue(journal, world)
        return state.model_copy(update={"next": "between", "wait_until": state.wait_until or "begun"})
    await blocked(journal, world, "nothing", found.blocking)
    return ended(state, Ending(outcome=ends.outcome_of(found.blocking), exit_code=0, blocking=found.blocking))


async def _start(state: State, chosen: Chosen, journal: Journal, world: World) -> State:
    params = world.run.params
    resumed = chosen.session is not None
    if not (resumed or params.force):
        dirty = await journal.note("dirty", lambda: _is_dirty(state, world), FLAG)
        if dirty and chosen.declined_own:
            await warn(
                journal,
                world,
                "dirty/waived",
                f"The tree has changes; they may be those of the declined session of {chosen.task_id}.",
            )
        elif dirty:
            message = "The work tree has changes that are not committed."
            await warn(journal, world, "dirty/refused", message)
            return failed_with(state, "unknown", message, "Commit or stash them, or start with --force.")
    at = await moment(journal, world, "selected/at")
    await journal.emit(
        "selected", TaskSelected(timestamp=at, run_mode=mode_of(world), task_id=chosen.task_id, message=chosen.title)
    )
    world.show(task_id=chosen.task_id, phase=None, state="running")
    base = await _keep_base(chosen.task_id, journal, world)
    changed = await journal.converge("doing", lambda again: _doing(world, chosen.task_id, at), TEXT)
    if changed == "changed":
        await queue_changed(journal, world, "doing/said")
    return await _with_session(state, chosen, base, at, journal, world)


async def _with_session(state: State, chosen: Chosen, base: _Kept, at: str, journal: Journal, world: World) -> State:
    """Write the session that says that this task has begun, or goes on."""
    task = world.files.task(chosen.task_id)
    overrides = world.run.params.overrides
    own = task.agent if task is not None else None
    phases = 1 if overrides.quick else overrides.phases or (own.phases if own and own.phases else world.config.agent.phases)
    planned = own.iterations if own and own.iterations else world.config.agent.iterations
    old = chosen.session
    phase = (1 if phases > 1 else 2) if old is None else old.current_phase
    if old is not None and phase > phases and phases > 1:
        await warn(
            journal, world, "phase/last", f"The session is in phase {phase}; this run has {phases}, so it goes on in the last."
        )
        phase = phases
    if phases == 1:
        phase = 2
    done_before = 0 if old is None else min(old.iterations_completed, planned - 1)
    tasks_done, max_tasks = state.tasks_done, _limit(state, old, world)
    if old is not None and state.number == 0:
        tasks_done = old.tasks_completed_in_loop
        if mode_of(world) == "loop" and max_tasks and tasks_done >= max_tasks:
            text = f"The loop has reached its {max_tasks} task(s) already; the interrupted one is finished, then it stops."
            await warn(journal, world, "limit", text, task_id=chosen.task_id)
    name = await journal.note("session/id", later(world.new_id), TEXT)
    settings = _settings(world, own, phase)
    shown = {f"phase{n}_settings": _settings_shown(world, own, n) for n in ((2,) if phases == 1 else range(1, phases + 1))}
    head = await journal.note("head", world.trees.head, MAYBE_TEXT)
    session = Session.model_validate(
        {
            "version": 1,
            "session_id": name if old is None else old.session_id,
            "task_id": chosen.task_id if old is None else old.task_id.strip(),
            "run_started_at": at if old is None else old.run_started_at,
            "last_updated_at": at,
            "iterations_planned": min(planned, 255),
            "iterations_completed": done_before,
            "current_phase": phase,
            "runner": settings.runner,
            "model": settings.model,
            "tasks_completed_in_loop": tasks_done,
            "max_tasks": max_tasks,
            "git_head_commit": head,
            **shown,
        }
    )
    written = await journal.converge("session", lambda again: _begin_session(world, session, chosen.action), WRITTEN)
    for number, path in enumerate(written.foreign):
        await warn(
            journal, world, f"session/foreign/{number}", f"Somebody else had written the session file; it is kept as {path}."
        )
    return state.model_copy(
        update={
            "next": "phase",
            "number": state.number + 1,
            "tasks_done": tasks_done,
            "max_tasks": max_tasks,
            "wait_until": None,
            "task": TaskState(
                task_id=chosen.task_id,
                title=chosen.title,
                phases=phases,
                iteration=done_before + 1,
                phase=phase,
                session=session,
                is_resumed=old is not None,
                base_commit=base.commit,
                base_head=base.head,
                base_dirty=base.was_dirty,
            ),
        }
    )


def _limit(state: State, old: Session | None, world: World) -> int:
    """One for `run one`; else what the call says, else what the resumed session had."""
    if mode_of(world) == "one":
        return 1
    if world.run.params.max_tasks is not None:
        return world.run.params.max_tasks
    return old.max_tasks if old is not None and state.number == 0 else state.max_tasks


def _settings(world: World, own: object, phase: int) -> PhaseSettings:
    found = effective(world.config, own, world.run.params.overrides, phase, world.plugins)  # type: ignore[arg-type]  # TaskAgent or None
    if isinstance(found, Effective):
        chosen = found.settings
        return PhaseSettings.model_validate({"runner": chosen.runner, "model": chosen.model, "reasoning_effort": chosen.effort})
    return PhaseSettings.model_validate({"runner": world.config.agent.runner, "model": world.config.agent.model})


def _settings_shown(world: World, own: object, phase: int) -> dict[str, object]:
    return _settings(world, own, phase).model_dump(mode="json", exclude_none=True)


async def _is_dirty(state: State, world: World) -> bool:
    """Against the commit; within a loop, against the tree as the last finished task left it."""
    if not await world.trees.is_dirty():
        return False
    return state.measure is None or await world.trees.now() != state.measure


async def _keep_base(task_id: str, journal: Journal, world: World) -> _Kept:
    """The tree as the task found it, for a revert; not kept where nothing can ever be reverted."""
    mode = world.run.params.overrides.git_revert_mode or world.config.agent.git_revert_mode
    if mode == "disabled":
        return _Kept(commit=None, head=None, was_dirty=False)
    return await journal.converge("base", lambda again: _kept(world, task_id), KEPT)


async def _kept(world: World, task_id: str) -> _Kept:
    base: Baseline = await world.trees.keep(task_id)
    return _Kept(commit=base.commit, head=base.head, was_dirty=base.was_dirty)


async def _doing(world: World, task_id: str, at: str) -> str:
    return world.files.begin(task_id, at)


async def _begin_session(world: World, session: Session, action: str) -> Written:
    return written(await world.sessions.begin(session, action))

"""A task is begun or taken up again: the tree is looked at and kept, the task is `doing`, the session says so."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, TypeAdapter

from cueloop_daemon.core.runs.beginning import Chosen
from cueloop_daemon.core.runs.taking_up import Count, count_of, is_reached, taken_up
from cueloop_daemon.runs.program.begin_events import queue_changed
from cueloop_daemon.runs.program.common import (
    FLAG,
    TEXT,
    again,
    beside,
    failed_with,
    later,
    mode_of,
    moment,
    together,
    warn,
)
from cueloop_daemon.runs.program.sessions import new_session, own_agent
from cueloop_daemon.runs.program.written import WRITTEN, tell
from cueloop_daemon.runs.state import State, TaskState
from cueloop_daemon.runs.types import Baseline, Journal, TaskConflict, World
from cueloop_protocol.documents.envelope import TaskSelected
from cueloop_protocol.documents.session import Session
from cueloop_protocol.values import dataclass


class Tree(BaseModel):
    """The work tree before a task. `content` is a tree object of it, None: as `head` has it, or there is no git."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    head: str | None
    content: str | None
    is_foreign: bool
    """It has changes that no run of ours made."""


TREE: TypeAdapter[Tree] = TypeAdapter(Tree)
BASE: TypeAdapter[Baseline] = TypeAdapter(Baseline)


async def start_task(state: State, chosen: Chosen, journal: Journal, world: World) -> State:
    """The task under way; or the ending, where the tree is not clean."""
    tree = await journal.note("standing", lambda: _tree(state, world), TREE)
    if tree.is_foreign and chosen.session is None and not world.run.params.force:
        if not chosen.declined_own:
            message = "The work tree has changes that are not committed."
            await warn(journal, world, "dirty/refused", message)
            return failed_with(state, "unknown", message, "Commit or stash them, or start with --force.")
        text = f"The tree has changes; they may be those of the declined session of {chosen.task_id}."
        await warn(journal, world, "dirty/waived", text, task_id=chosen.task_id)
    at = await moment(journal, world, "selected/at")
    await journal.emit(
        "selected", TaskSelected(timestamp=at, run_mode=mode_of(world), task_id=chosen.task_id, message=chosen.title)
    )
    world.show(task_id=chosen.task_id, phase=None, state="running")
    new_id = await journal.note("session/id", later(world.new_id), TEXT)
    session_id = new_id if chosen.session is None else chosen.session.session_id
    base = await _make_doing(chosen, at, _Keeping(chosen, session_id, tree, world), journal, world)
    return await _with_session(state, chosen, session_id, tree, base, journal, world)


async def _tree(state: State, world: World) -> Tree:
    """Within a loop the tree as the last finished task left it is the measure."""
    standing = await world.trees.standing()
    if not standing.is_dirty:
        return Tree(head=standing.head, content=None, is_foreign=False)
    content = await world.trees.now()
    return Tree(head=standing.head, content=content, is_foreign=state.measure is None or content != state.measure)


@dataclass(slots=True)
class _Keeping:
    """The tree as the task found it. No agent has begun, so it stands as it did, however often and late it is kept."""

    chosen: Chosen
    session_id: str
    tree: Tree
    world: World
    made: Baseline | None = None

    async def early(self, again: bool) -> None:
        """Beside what takes its time anyway; what is on record is what `base` gives."""
        self.made = await self.base(again)

    async def base(self, again: bool) -> Baseline:
        """Keep it, unless this life has done so; not at all where nothing is ever reverted or published."""
        if self.made is not None:
            return self.made
        flags, agent = self.world.run.params.overrides, self.world.config.agent
        reverts = (flags.git_revert_mode or agent.git_revert_mode) != "disabled"
        publishes = (flags.git_publish_mode or agent.git_publish_mode) != "off"
        if not (reverts or publishes):
            return Baseline(commit=None, head=None, was_dirty=self.tree.is_foreign)
        return await self.world.trees.keep(
            self.chosen.task_id,
            self.session_id,
            tree=self.tree.content,
            head=self.tree.head,
            dirty=self.tree.is_foreign,
            is_new=self.chosen.session is None and not again,
        )


async def _make_doing(chosen: Chosen, at: str, keeping: _Keeping, journal: Journal, world: World) -> Baseline:
    """A step, so that everything that was decided is on record before the first file changes: a later life must not decide again."""
    task_id = chosen.task_id
    changes = await journal.note("doing/changes", lambda: _is_not_doing(task_id, world), FLAG)

    async def act(moment: str, again: bool) -> str:
        found = await together(beside(world.files.begin, task_id, moment), lambda: keeping.early(again))
        if found == "missing":
            raise TaskConflict(f"Task {task_id} was taken out of the queue while the run was about to begin it.")
        return found

    await journal.step("doing", at, act, TEXT, TEXT)
    base = await journal.converge("base", keeping.base, BASE)
    if changes:
        await queue_changed(journal, world, "doing/said")
    return base


async def _is_not_doing(task_id: str, world: World) -> bool:
    return (await beside(world.files.status, task_id)())[0] != "doing"


async def _with_session(
    state: State, chosen: Chosen, session_id: str, tree: Tree, base: Baseline, journal: Journal, world: World
) -> State:
    """Write the session that says that this task has begun, or goes on."""
    own = await own_agent(chosen.task_id, journal, world)
    old = chosen.session
    work = taken_up(world.config.agent, own, world.run.params.overrides, old)
    for number, text in enumerate(work.warnings):
        await warn(journal, world, f"work/{number}", text, task_id=chosen.task_id)
    so_far = Count(state.tasks_done, state.max_tasks)
    count = count_of(mode_of(world), world.run.params.max_tasks, so_far, old if state.number == 0 else None)
    if old is not None and mode_of(world) == "loop" and is_reached(count):
        text = f"The loop has reached its {count.limit} task(s) already; the interrupted one is finished, then it stops."
        await warn(journal, world, "limit", text, task_id=chosen.task_id)
    at = await moment(journal, world, "session/at")
    session = new_session(world, chosen, own, work, count, session_id=session_id, at=at, head=tree.head)
    etag = await _begin_session(session, chosen, journal, world)
    task = TaskState(
        task_id=chosen.task_id,
        title=chosen.title,
        phases=work.phases,
        iterations=work.iterations,
        iteration=work.iteration,
        phase=work.phase,
        session=session,
        session_etag=etag,
        is_resumed=old is not None,
        is_worked=work.is_worked,
        base_commit=base.commit,
        base_head=base.head,
        base_dirty=base.was_dirty,
    )
    update = {
        "number": state.number + 1,
        "tasks_done": count.done,
        "max_tasks": count.limit,
        "wait_until": None,
        "wait_kind": None,
    }
    return state.model_copy(update={**update, "next": "phase", "task": task})


async def _begin_session(session: Session, chosen: Chosen, journal: Journal, world: World) -> str:
    reason = "unknown" if chosen.decision is None else chosen.decision.reason

    begin = again(lambda: world.sessions.begin(session, chosen.action, seen=chosen.seen, reason=reason))
    result = await journal.converge("session", begin, WRITTEN)
    await tell(journal, world, "session", result)
    return result.etag

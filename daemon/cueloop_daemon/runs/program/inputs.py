"""What a phase needs of those before it, and leaves for those after it: the plan, and the implementing agent's last message."""

from __future__ import annotations

import os
from typing import Literal

from pydantic import TypeAdapter

from cueloop_daemon.core.runs import ends
from cueloop_daemon.runs.places import hand_off_io, plan_io, plan_shown
from cueloop_daemon.runs.program.common import FLAG, NOTHING, TEXTS, again, beside, warn
from cueloop_daemon.runs.program.scene import Part, Scene, Words
from cueloop_daemon.runs.program.talk import talk
from cueloop_daemon.runs.reading import beginning_of
from cueloop_daemon.runs.state import FailState, TaskState
from cueloop_daemon.runs.types import Journal, World
from cueloop_daemon.store.not_writable import not_writable
from cueloop_protocol.roots import Root

PLAN_LIMIT = 4 * 1024 * 1024
MOST_NAMED = 50
"""Files that a message names."""

PhaseNumber = Literal[1, 2, 3]
PHASE: TypeAdapter[PhaseNumber] = TypeAdapter(PhaseNumber)


async def where_inputs_are(task: TaskState, journal: Journal, world: World) -> TaskState:
    """A resumed phase whose inputs are gone goes back to the last one whose inputs exist, and says so."""
    if not task.is_resumed or task.is_worked or task.phases == 1 or task.phase == 1:
        return task
    ready = await journal.note("inputs", beside(_ready, world.root, task), PHASE)
    if ready >= task.phase:
        return task
    text = f"The session is in phase {task.phase}, whose inputs are missing; task {task.task_id} goes on from phase {ready}."
    await warn(journal, world, "inputs/said", text, task_id=task.task_id)
    return task.model_copy(update={"phase": ready})


async def check_plan(scene: Scene, before: str | None) -> FailState | None:
    """A plan must be there and nothing else may have changed; the agent may mend it once."""
    changed = await _wrong_with_plan(scene, before, 0)
    if changed is None:
        return None
    part = Part("plan_changed", {"files": _named(changed)}) if changed else Part("plan_empty")
    trouble = await talk(scene, "mend", Words((scene.opening(), part), (part,)), resume=True)
    if trouble is not None:
        return trouble
    changed = await _wrong_with_plan(scene, before, 1)
    if changed is None:
        return None
    reason = (
        f"The plan phase changed files of the repository ({', '.join(changed[:3])}{', …' if len(changed) > 3 else ''})."
        if changed
        else f"The plan {plan_shown(scene.task.task_id)} is empty or missing."
    )
    error = ends.error("unknown", reason, "Look at what the agent wrote, then resume or start fresh.")
    return FailState(kind="plan", reason=reason, error=error)


async def hand_off(scene: Scene) -> None:
    """Leave the implementing agent's last message for the review."""
    act = again(beside(_write_hand_off, scene.world.root, scene.task.task_id, scene.last_text, scene.world.run.run_id))
    await scene.journal.converge("hand-off", act, NOTHING)


async def _wrong_with_plan(scene: Scene, before: str | None, attempt: int) -> tuple[str, ...] | None:
    """None: nothing. The files that changed; none of them: the plan is empty or missing."""
    trees, journal = scene.world.trees, scene.journal

    async def compare() -> tuple[str, ...]:
        after = await trees.now()
        if before is None or after is None or before == after:
            return ()
        return await trees.changed(before, after)

    changed = await journal.note(f"plan/{attempt}/changed", compare, TEXTS)
    has_plan = await journal.note(f"plan/{attempt}/there", beside(_has_text, scene.plan_io), FLAG)
    return None if has_plan and not changed else changed


def _named(paths: tuple[str, ...]) -> str:
    shown = "\n".join(f"- {path}" for path in paths[:MOST_NAMED])
    return shown if len(paths) <= MOST_NAMED else f"{shown}\n- … and {len(paths) - MOST_NAMED} more"


def _ready(root: Root, task: TaskState) -> PhaseNumber:
    """The last phase whose inputs exist."""
    if not _has_text(plan_io(root, task.task_id)):
        return 1
    return 3 if task.phases == 3 and os.path.isfile(hand_off_io(root, task.task_id)) else 2


def _has_text(path: str) -> bool:
    """Whether a file is there that says something."""
    try:
        return bool((beginning_of(path, PLAN_LIMIT) or b"").strip())
    except OSError:
        return False


def _write_hand_off(root: Root, task_id: str, text: str, run_id: str) -> None:
    """Whole or not at all. Raises NotWritable."""
    path = hand_off_io(root, task_id)
    temporary = f"{path}.{run_id}.new"
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(temporary, "w", encoding="utf-8", errors="replace") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as exc:
        raise not_writable(exc, path) from exc

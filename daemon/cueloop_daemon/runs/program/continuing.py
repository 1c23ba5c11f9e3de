"""Whether an agent goes on in its own conversation: decided, and said, before each invocation that could."""

from __future__ import annotations

from cueloop_daemon.runs.program.common import MAYBE_TEXT, decided, later
from cueloop_daemon.runs.program.scene import Scene, conversation_from, conversation_json
from cueloop_protocol.documents.decision import Decision, Reason, Status

FRESH: Status = "falling_back_to_fresh_invocation"
SAME: Status = "resuming_same_session"


async def to_continue(scene: Scene, key: str) -> str | None:
    """The conversation to go on with, as JSON; None: a fresh one. Either is said."""
    found = await scene.journal.note(f"{key}/conversation", later(scene.find_conversation), MAYBE_TEXT)
    if found is None:
        await _say(scene, key, FRESH, "missing_runner_session_id", "No session id of the agent is known.")
        return None
    if not scene.runner.can_resume:
        await _say(scene, key, FRESH, "missing_runner_session_id", "This runner cannot continue a conversation.")
        return None

    async def locate(again: bool) -> str | None:
        there = scene.runner.locate(conversation_from(found), scene.world.root.path, scene.world.run.env)
        if there is None:
            scene.keep(found, "gone")
        return None if there is None else conversation_json(there)

    located = await scene.journal.converge(f"{key}/located", locate, MAYBE_TEXT)
    if located is None:
        await _say(scene, key, FRESH, "runner_session_invalid", "The agent's session is not there any more.")
        return None
    detail = f"The {scene.settings.runner} session {conversation_from(located).id} is continued in phase {scene.word}."
    await _say(scene, key, SAME, "session_valid", detail)
    return located


async def not_continued(scene: Scene, key: str, why: str) -> None:
    """The conversation turned out to be gone: reality was different from what was said."""
    await _say(scene, f"{key}/really", FRESH, "runner_session_invalid", why)


async def _say(scene: Scene, key: str, status: Status, reason: Reason, detail: str) -> None:
    task = scene.task.task_id
    message = (
        f"Continue: going on in the agent's own session for task {task}."
        if status == SAME
        else f"Continue: starting a fresh agent session for task {task}."
    )
    decision = Decision(status=status, scope="continue_session", reason=reason, task_id=task, message=message, detail=detail)
    await decided(scene.journal, scene.world, f"{key}/decision", decision)

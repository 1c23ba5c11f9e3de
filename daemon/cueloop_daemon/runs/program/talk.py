"""One thing said to an agent, until it has done it or cannot: its own conversation reused, the named fallbacks, retries."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Literal

from cueloop_protocol.base import dump
from cueloop_protocol.documents.decision import Decision, Reason, Status
from cueloop_protocol.documents.envelope import Phase
from cueloop_protocol.documents.error import ErrorDocument
from cueloop_protocol.documents.queue import Task

from cueloop_daemon.core.runs import ends
from cueloop_daemon.core.runs.repeat import MOST_SIGNALS, hold_seconds, most_attempts
from cueloop_daemon.core.stamps import format_stamp, parse_stamp
from cueloop_daemon.runners import Conversation, Runner, Settings
from cueloop_daemon.runs.program.common import MAYBE_TEXT, NUMBER, TEXT, WORDS, decided, later, warn
from cueloop_daemon.runs.program.invoke import Result, invoke
from cueloop_daemon.runs.state import TaskState
from cueloop_daemon.runs.types import Journal, PromptError, World


@dataclass(frozen=True, slots=True)
class Trouble:
    """What ends the work on a task for now."""

    kind: Literal["agent", "gate", "plan"]
    error: ErrorDocument
    reason: str
    exit_code: int | None = None
    pattern: str | None = None


@dataclass(slots=True)
class Scene:
    """One phase with everything that belongs to it. `last_text` is the agent's last message."""

    journal: Journal
    world: World
    task: TaskState
    own: Task | None
    settings: Settings
    runner: Runner
    last_text: str = ""
    versioned: bool = field(default=False)

    @property
    def word(self) -> Phase:
        """The phase in the app's words."""
        return WORDS[self.task.phase]

    @property
    def prompt_name(self) -> str:
        """Which of our prompts begins this phase."""
        return "single" if self.task.phases == 1 else WORDS[self.task.phase]

    @property
    def plan_path(self) -> str:
        """The plan, relative to the root."""
        return f".cueloop/cache/plans/{self.task.task_id}.md"

    @property
    def plan_io(self) -> str:
        """The plan, for system calls."""
        return self.world.root.join(".cueloop", "cache", "plans", f"{self.task.task_id}.md")

    async def find_conversation(self) -> str | None:
        """The conversation of this very phase, as JSON. One of ours that no stream has reported counts for few runners only."""
        task = self.task
        found = self.world.conversations.find(
            task.task_id, task.session.session_id, task.iteration, task.phase, self.settings.runner
        )
        if found is None:
            return None
        conversation = Conversation(**json.loads(found))
        if conversation.is_ours and self.runner.reader().interrupted(chosen=conversation) is None:
            return None
        return found

    def remember(self, conversation: str | None) -> None:
        """What a successful stream leaves to be continued: the session that it reported, or none, whatever we had chosen."""
        task = self.task
        if conversation is not None:
            self.keep(conversation, "reported")
            return
        chosen = self.world.conversations.find(
            task.task_id, task.session.session_id, task.iteration, task.phase, self.settings.runner
        )
        if chosen is not None:
            self.keep(chosen, "gone")

    def keep(self, conversation: str, state: str) -> None:
        """Remember the conversation of this phase."""
        task = self.task
        self.world.conversations.keep(
            task.task_id, task.session.session_id, task.iteration, task.phase, self.settings.runner, conversation, state
        )

    def make_prompt(self, name: str, fields: Mapping[str, str]) -> str:
        """One of the prompts, with what is known of task and phase. Raises PromptError."""
        task = self.task
        printed = "" if self.own is None else json.dumps(dump(self.own), indent=2, ensure_ascii=False)
        known = {
            "task_id": task.task_id,
            "title": task.title,
            "task": printed,
            "plan_path": self.plan_path,
            "phase": str(1 if task.phases == 1 else task.phase),
            "phases": str(task.phases),
            "iteration": str(task.iteration),
            "iterations": str(task.session.iterations_planned),
        }
        return self.world.prompts.make(name, {**known, **fields})


async def talk(scene: Scene, key: str, name: str, fields: Mapping[str, str], *, resume: bool) -> Trouble | None:
    """Say it; None when the agent has done it. `resume`: in its own conversation, where there is one."""
    journal, world = scene.journal, scene.world
    try:
        said = await journal.note(f"{key}/said", later(lambda: _say(scene, name, fields)), TEXT)
        base = await journal.note(f"{key}/base", later(lambda: scene.make_prompt(scene.prompt_name, {})), TEXT) if resume else ""
    except PromptError as exc:
        return Trouble("agent", ends.error("config_incompatible", str(exc)), str(exc))
    attempt = failures = signals = idles = fresh = 0
    while True:
        at = f"{key}/{attempt}"
        attempt += 1
        conversation = await _to_continue(scene, at) if resume else None
        if resume and conversation is None:
            resume, said = False, f"{base}\n\n{said}"
        result = await invoke(scene, at, said, conversation, fresh)
        scene.last_text = result.text or scene.last_text
        fresh += conversation is None
        if result.verdict == "succeeded":
            scene.remember(result.conversation)
            return None
        if result.verdict == "gone" and conversation is not None:
            scene.keep(conversation, "gone")
            await decided(
                journal,
                world,
                f"{at}/really",
                _continuing(scene, "falling_back_to_fresh_invocation", "runner_session_invalid", result.reason),
            )
            resume, said = False, f"{base}\n\n{said}"
            continue
        if result.verdict == "interrupted" and result.conversation is not None:
            scene.keep(result.conversation, "reported")
        if result.verdict == "interrupted" and (
            (result.signal is None and idles == 0) or (result.signal is not None and signals < MOST_SIGNALS)
        ):
            idles, signals = idles + (result.signal is None), signals + (result.signal is not None)
            await warn(journal, world, f"{at}/again", f"{result.reason} It is asked to go on.", task_id=scene.task.task_id)
            try:
                again = await journal.note(
                    f"{at}/said", later(partial(_say, scene, "interrupted", {"reason": result.reason})), TEXT
                )
                base = base or said
            except PromptError as exc:
                return Trouble("agent", ends.error("config_incompatible", str(exc)), str(exc))
            resume, said = True, again
            continue
        if result.retryable and failures + 1 < most_attempts(world.config.agent.runner_retry.max_attempts):
            failures += 1
            await warn(journal, world, f"{at}/retry", f"{result.reason} It is tried again.", task_id=scene.task.task_id)
            await _hold(scene, at, failures, result)
            continue
        return _trouble(scene, result)


def _say(scene: Scene, name: str, fields: Mapping[str, str]) -> str:
    return fields["message"] if name == "answer" else scene.make_prompt(name, fields)


async def _to_continue(scene: Scene, at: str) -> str | None:
    """The conversation to go on with, said beforehand; or None, and said, too."""
    journal, world = scene.journal, scene.world
    found = await journal.note(f"{at}/conversation", scene.find_conversation, MAYBE_TEXT)
    if found is None or not scene.runner.can_resume:
        detail = "No session id of the agent is known." if found is None else "This runner cannot continue a conversation."
        await decided(
            journal,
            world,
            f"{at}/decision",
            _continuing(scene, "falling_back_to_fresh_invocation", "missing_runner_session_id", detail),
        )
        return None
    located = await journal.note(f"{at}/located", later(lambda: _located(scene, found)), MAYBE_TEXT)
    if located is None:
        scene.keep(found, "gone")
        await decided(
            journal,
            world,
            f"{at}/decision",
            _continuing(
                scene, "falling_back_to_fresh_invocation", "runner_session_invalid", "The agent's session is not there any more."
            ),
        )
        return None
    detail = f"The {scene.settings.runner} session {json.loads(found)['id']} is continued in phase {scene.word}."
    await decided(journal, world, f"{at}/decision", _continuing(scene, "resuming_same_session", "session_valid", detail))
    return located


def _located(scene: Scene, found: str) -> str | None:
    conversation = Conversation(**json.loads(found))
    there = scene.runner.locate(conversation, scene.world.root.path, scene.world.run.env)
    return None if there is None else conversation_json(there)


def conversation_json(conversation: Conversation) -> str:
    """A conversation as it is kept."""
    return json.dumps({"id": conversation.id, "is_ours": conversation.is_ours, "file": conversation.file})


def _continuing(scene: Scene, status: Status, reason: Reason, detail: str) -> Decision:
    task = scene.task.task_id
    message = {
        "resuming_same_session": f"Continue: going on in the agent's own session for task {task}.",
        "falling_back_to_fresh_invocation": f"Continue: starting a fresh agent session for task {task}.",
        "refusing_to_resume": f"Continue: refusing to go on with the agent's session for task {task}.",
    }[status]
    return Decision(status=status, scope="continue_session", reason=reason, task_id=task, message=message, detail=detail)


async def _hold(scene: Scene, at: str, failures: int, result: Result) -> None:
    """Wait before the next attempt; a new life waits the rest."""
    journal, world = scene.journal, scene.world
    retry = world.config.agent.runner_retry
    share = await journal.note(f"{at}/share", later(lambda: _share(world)), NUMBER)
    seconds = hold_seconds(retry, failures, share / 1000, is_limit=result.is_limit)
    due = await journal.note(
        f"{at}/due", later(lambda: result.limit_until or format_stamp(world.now() + timedelta(seconds=seconds))), TEXT
    )
    until = parse_stamp(due)
    if until is not None:
        world.show(task_id=scene.task.task_id, phase=scene.word, state="waiting")
        await journal.wait(world.sleep_until(until))
        world.show(task_id=scene.task.task_id, phase=scene.word, state="running")


def _share(world: World) -> int:
    """A random number from 0 to 1000, taken from a random id."""
    return int(world.new_id().replace("-", "")[:8], 16) % 1001


def _trouble(scene: Scene, result: Result) -> Trouble:
    code = "cli_unavailable" if result.verdict in ("missing", "login") else "unknown"
    detail = result.hint or (f"It said last: {result.tail.strip()[-2000:]}" if result.tail.strip() else None)
    return Trouble("agent", ends.error(code, result.reason, detail), result.reason, exit_code=result.exit_code)

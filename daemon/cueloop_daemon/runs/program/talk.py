"""One thing said to an agent, until it has done it or cannot: its own conversation reused, the named fallbacks, retries."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

from cueloop_daemon.core.runs import ends
from cueloop_daemon.core.runs.repeat import Tally, hold_seconds, is_hard, most_attempts, next_move
from cueloop_daemon.core.stamps import format_stamp, parse_stamp
from cueloop_daemon.runs.program.common import NUMBER, TEXT, later, warn
from cueloop_daemon.runs.program.continuing import not_continued, to_continue
from cueloop_daemon.runs.program.invoke import invoke
from cueloop_daemon.runs.program.judging import Result
from cueloop_daemon.runs.program.scene import Part, Scene, Words
from cueloop_daemon.runs.state import FailState
from cueloop_daemon.runs.types import World

CODES = {"missing": "cli_unavailable", "login": "cli_unavailable", "unprompted": "config_incompatible"}
"""Verdicts of invocations that could not begin → error codes; the others have no better one than `unknown`."""


async def talk(scene: Scene, key: str, words: Words, *, resume: bool) -> FailState | None:
    """Say it; None when the agent has done it. `resume`: in its own conversation, where there is one."""
    attempts = most_attempts(scene.world.config.agent.runner_retry.max_attempts)
    tally, attempt = Tally(), 0
    while True:
        at = f"{key}/{attempt}"
        attempt += 1
        conversation = await to_continue(scene, at) if resume else None
        result = await invoke(scene, at, words.whole if conversation is None else words.more, conversation)
        scene.last_text = result.text or scene.last_text
        move, tally = next_move(result.seen(was_continued=conversation is not None), tally, attempts)
        match move:
            case "done":
                return None
            case "give_up":
                return _trouble(result)
            case "begin_anew":
                resume = False
                await not_continued(scene, at, result.reason)
            case "go_on":
                resume, words = True, words.then(Part("interrupted", {"reason": result.reason}))
                text = f"{result.reason} It is asked to go on."
                await warn(scene.journal, scene.world, f"{at}/again", text, task_id=scene.task.task_id)
            case "try_again":
                resume = conversation is not None
                text = f"{result.reason} It is tried again."
                await warn(scene.journal, scene.world, f"{at}/retry", text, task_id=scene.task.task_id)
                await _hold(scene, at, tally.failures, result)


async def _hold(scene: Scene, at: str, failures: int, result: Result) -> None:
    """Wait before the next attempt; a new life waits the rest. Never shorter than without the limit's own word."""
    journal, world = scene.journal, scene.world
    share = await journal.note(f"{at}/share", later(lambda: _share(world)), NUMBER)
    seconds = hold_seconds(world.config.agent.runner_retry, failures, share / 1000, is_limit=result.is_limit)
    due = await journal.note(f"{at}/due", later(lambda: _due(world.now(), seconds, result.limit_until)), TEXT)
    until = parse_stamp(due)
    assert until is not None, "it was written by us"
    world.show(task_id=scene.task.task_id, phase=scene.word, state="waiting")
    await journal.wait(world.sleep_until(until))
    world.show(task_id=scene.task.task_id, phase=scene.word, state="running")


def _due(now: datetime, seconds: float, told: str | None) -> str:
    least = now + timedelta(seconds=seconds)
    until = None if told is None else parse_stamp(told)
    return format_stamp(least if until is None else max(until, least))


def _share(world: World) -> int:
    """A random number from 0 to 1000, taken from a random id."""
    return int(world.new_id().replace("-", "")[:8], 16) % 1001


def _trouble(result: Result) -> FailState:
    tail = result.tail.strip()
    detail = result.hint or (f"It said last: {tail[-2000:]}" if tail else None)
    kind: Literal["agent", "interrupted"] = "agent" if is_hard(result.seen(was_continued=False)) else "interrupted"
    error = ends.error(CODES.get(result.verdict, "unknown"), result.reason, detail)
    return FailState(kind=kind, reason=result.reason, error=error, exit_code=result.exit_code)

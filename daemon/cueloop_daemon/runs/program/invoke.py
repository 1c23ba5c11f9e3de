"""One invocation of an agent: a step, so that no agent is ever started twice for the same thing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal

from cueloop_protocol.documents.envelope import RunnerOutput, TextPayload
from pydantic import BaseModel, ConfigDict, TypeAdapter

from cueloop_daemon.runners import (
    Conversation,
    Failed,
    Gone,
    Invocation,
    LoginNeeded,
    Piece,
    Prompt,
    Reader,
    Succeeded,
    child_environment,
    install_hint,
)
from cueloop_daemon.runs.program.child import GRACE, follow, intend
from cueloop_daemon.runs.program.common import NUMBER, later, mode_of, stamp, warn
from cueloop_daemon.runs.types import Exited, NotStarted, Order

if TYPE_CHECKING:
    from cueloop_daemon.runs.program.talk import Scene

MOST_TEXT = 200_000
"""Characters of one `runner_output` event."""


class Intent(BaseModel):
    """An agent that is to be started. `chosen` and `resumed` are conversations as JSON."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    number: int
    token: str
    chosen: str | None
    resumed: str | None


class Result(BaseModel):
    """What became of an invocation."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    verdict: Literal["succeeded", "gone", "failed", "login", "interrupted", "missing"]
    reason: str = ""
    conversation: str | None = None
    text: str = ""
    tail: str = ""
    hint: str | None = None
    retryable: bool = False
    is_limit: bool = False
    limit_until: str | None = None
    exit_code: int | None = None
    signal: int | None = None


INTENT: TypeAdapter[Intent] = TypeAdapter(Intent)
RESULT: TypeAdapter[Result] = TypeAdapter(Result)


async def invoke(scene: Scene, key: str, text: str, conversation: str | None, fresh: int) -> Result:
    """Start the agent with `text`, in `conversation` (JSON) or a new one, and see it through."""
    journal, world, task = scene.journal, scene.world, scene.task
    plain = await intend(journal, world, key)
    chosen: str | None = None
    if conversation is None:
        seconds = await journal.note(f"{key}/seconds", later(lambda: int(world.now().timestamp())), NUMBER)
        own = scene.runner.choose_id(task.task_id, 0 if task.phases == 1 else task.phase, seconds, fresh)
        if own is not None:
            chosen = _json(own)
            scene.keep(chosen, "chosen")
    intent = Intent(number=plain.number, token=plain.token, chosen=chosen, resumed=conversation)
    for number, message in enumerate(_invocation(scene, intent, text).warnings):
        await warn(journal, world, f"{key}/warning/{number}", message, task_id=task.task_id)

    async def act(wanted: Intent, again: bool) -> Result:
        return await _run(scene, wanted, text)

    return await journal.step(f"{key}/invoke", intent, act, INTENT, RESULT)


def _invocation(scene: Scene, intent: Intent, text: str) -> Invocation:
    world = scene.world
    prompt = Prompt(text, world.folder.write_prompt(intent.number, text))
    if intent.resumed is not None:
        return scene.runner.resume(scene.settings, Conversation(**json.loads(intent.resumed)), prompt, world.root.path)
    chosen = None if intent.chosen is None else Conversation(**json.loads(intent.chosen))
    return scene.runner.fresh(scene.settings, prompt, chosen, world.root.path)


async def _run(scene: Scene, intent: Intent, text: str) -> Result:
    world = scene.world
    invocation = _invocation(scene, intent, text)
    program = world.find_program(invocation.argv[0])
    if program is None:
        name = scene.settings.runner
        reason = f"The program of {name}, {invocation.argv[0]}, was not found or cannot be executed."
        path = world.run.env.get("PATH", "")
        return Result(verdict="missing", reason=reason, hint=f"{install_hint(name)} It was looked for on PATH={path}.")
    stdin = None if invocation.stdin is None else world.folder.write_stdin(intent.number, invocation.stdin)
    order = Order(
        number=intent.number,
        token=intent.token,
        kind="agent",
        argv=(program, *invocation.argv[1:]),
        env=child_environment(world.run.env, invocation, world.run.run_id, scene.task.task_id),
        stdin=stdin,
        idle=world.idle_seconds,
        wall=world.wall_seconds,
        grace=GRACE,
    )
    reader = scene.runner.reader()

    def feed(stream: Literal["out", "err"], data: bytes, upto: int) -> None:
        _tell(scene, intent.number, stream, upto, reader.feed(data) if stream == "out" else reader.feed_err(data))

    ended = await follow(scene.journal, world, order, feed, lambda: reader.last_word_seen)
    if isinstance(ended, NotStarted):
        reason = f"{program} could not be started: {_why(ended)}."
        return Result(verdict="missing", reason=reason, hint=install_hint(scene.settings.runner))
    _tell(scene, intent.number, "out", ended.out, reader.end())
    return _judge(scene, intent, reader, ended)


def _tell(scene: Scene, number: int, stream: Literal["out", "err"], upto: int, pieces: list[Piece]) -> None:
    text = "".join(piece.text for piece in pieces)
    for begin in range(0, len(text), MOST_TEXT):
        world = scene.world
        world.tell(
            number,
            stream,
            upto,
            RunnerOutput(
                timestamp=stamp(world),
                run_mode=mode_of(world),
                task_id=scene.task.task_id,
                phase=scene.word,
                payload=TextPayload(text=text[begin : begin + MOST_TEXT]),
            ),
        )


def _why(ended: NotStarted) -> str:
    import os

    if ended.stage == "exec" and ended.errno == 2:
        return "its interpreter is missing (the first line of the file names it)"
    return f"{os.strerror(ended.errno)} ({ended.stage})"


def _judge(scene: Scene, intent: Intent, reader: Reader, ended: Exited) -> Result:
    chosen = None if intent.chosen is None else Conversation(**json.loads(intent.chosen))
    resumed = None if intent.resumed is None else Conversation(**json.loads(intent.resumed))
    name = scene.settings.runner
    if ended.cause in ("idle", "wall"):
        kept = reader.interrupted(chosen=chosen) or resumed
        limit = "said nothing for too long" if ended.cause == "idle" else "took too long"
        reason = f"{name} {limit} and was ended."
        return Result(
            verdict="interrupted", reason=reason, conversation=None if kept is None else _json(kept), text=reader.final_text
        )
    verdict = reader.verdict(ended.code, ended.signal, resumed=resumed, chosen=chosen, lingered=ended.cause == "leave")
    match verdict:
        case Succeeded(conversation=conversation, text=text):
            return Result(verdict="succeeded", text=text, conversation=None if conversation is None else _json(conversation))
        case Gone(reason=reason):
            return Result(verdict="gone", reason=reason)
        case LoginNeeded(reason=reason, hint=hint, tail=tail):
            return Result(verdict="login", reason=reason, hint=hint, tail=tail)
        case Failed() as failed:
            foreign = ended.signal is not None and ended.cause == "self"
            kept = reader.interrupted(chosen=chosen) or resumed if foreign else None
            return Result(
                verdict="interrupted" if foreign else "failed",
                reason=failed.reason,
                tail=failed.tail,
                conversation=None if kept is None else _json(kept),
                text=reader.final_text,
                retryable=failed.retryable,
                is_limit=failed.is_limit,
                limit_until=failed.limit_until,
                exit_code=ended.code,
                signal=ended.signal,
            )


def _json(conversation: Conversation) -> str:
    return json.dumps({"id": conversation.id, "is_ours": conversation.is_ours, "file": conversation.file})

"""One invocation of an agent: a step, so that no agent is ever started twice for the same thing."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial

from pydantic import BaseModel, ConfigDict, TypeAdapter

from cueloop_daemon.runners import Conversation, Invocation, Piece, Prompt, Reader, child_environment, install_hint
from cueloop_daemon.runs.program.child import GRACE, follow, intend
from cueloop_daemon.runs.program.common import NOTHING, again, beside, later, mode_of, stamp, warn
from cueloop_daemon.runs.program.judging import RESULT, Result, judged
from cueloop_daemon.runs.program.scene import Part, Scene, conversation_from, conversation_json
from cueloop_daemon.runs.types import NotStarted, Order, PromptError, Stream
from cueloop_protocol.documents.envelope import RunnerOutput, TextPayload

MOST_TEXT = 200_000
"""Characters of one `runner_output` event."""


class Intent(BaseModel):
    """An agent that is to be started. `chosen` and `resumed` are conversations as JSON; at most one is given."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    number: int
    token: str
    chosen: str | None
    resumed: str | None


class Ready(BaseModel):
    """What is known before the start: why there is nothing to say to the agent, or what the person is to be told."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    problem: str | None = None
    warnings: tuple[str, ...] = ()


INTENT: TypeAdapter[Intent] = TypeAdapter(Intent)
READY: TypeAdapter[Ready] = TypeAdapter(Ready)


async def invoke(scene: Scene, key: str, parts: tuple[Part, ...], conversation: str | None) -> Result:
    """Start the agent, tell it `parts`, in `conversation` (JSON) or a new one, and see it through.

    What is said is in no record, only in the run's folder: a later life that has to make it again may find other words.
    """
    journal = scene.journal
    plain = await intend(journal, scene.world, key)
    chosen = await _choose(scene, key) if conversation is None else None
    intent = Intent(number=plain.number, token=plain.token, chosen=chosen, resumed=conversation)
    ready = await journal.note(f"{key}/ready", lambda: _ready(scene, intent, parts), READY)
    if ready.problem is not None:
        return Result(verdict="unprompted", reason=ready.problem)
    for number, message in enumerate(ready.warnings):
        await warn(journal, scene.world, f"{key}/warning/{number}", message, task_id=scene.task.task_id)

    async def act(wanted: Intent, again: bool) -> Result:
        result = await _run(scene, wanted, parts)
        _remember(scene, wanted, result)
        return result

    return await journal.step(f"{key}/invoke", intent, act, INTENT, RESULT)


async def _choose(scene: Scene, key: str) -> str | None:
    """The id of our own for a new conversation, where the CLI takes one; remembered before the start."""
    task = scene.task
    own = scene.runner.choose_id(task.task_id, 0 if task.phases == 1 else task.phase, scene.seconds, scene.fresh_starts)
    scene.fresh_starts += 1
    if own is None:
        return None
    chosen = conversation_json(own)
    await scene.journal.converge(f"{key}/chosen", again(later(partial(scene.keep, chosen, "chosen"))), NOTHING)
    return chosen


async def _ready(scene: Scene, intent: Intent, parts: tuple[Part, ...]) -> Ready:
    try:
        return Ready(warnings=(await beside(_invocation, scene, intent, parts)()).warnings)
    except PromptError as exc:
        return Ready(problem=str(exc))


def _invocation(scene: Scene, intent: Intent, parts: tuple[Part, ...]) -> Invocation:
    """Blocking. Raises PromptError."""
    world, text = scene.world, scene.text_of(parts)
    prompt = Prompt(text, world.folder.write_prompt(intent.number, text))
    if intent.resumed is not None:
        return scene.runner.resume(scene.settings, conversation_from(intent.resumed), prompt, world.root.path)
    chosen = None if intent.chosen is None else conversation_from(intent.chosen)
    return scene.runner.fresh(scene.settings, prompt, chosen, world.root.path)


async def _run(scene: Scene, intent: Intent, parts: tuple[Part, ...]) -> Result:
    world = scene.world
    try:
        invocation = await beside(_invocation, scene, intent, parts)()
    except PromptError as exc:
        return Result(verdict="unprompted", reason=str(exc))
    program = world.find_program(invocation.argv[0])
    if program is None:
        return _not_found(scene, invocation.argv[0])
    order = Order(
        number=intent.number,
        token=intent.token,
        kind="agent",
        argv=(program, *invocation.argv[1:]),
        env=child_environment(world.run.env, invocation, world.run.run_id, scene.task.task_id),
        stdin=None if invocation.stdin is None else await beside(world.folder.write_stdin, intent.number, invocation.stdin)(),
        idle=world.idle_seconds,
        wall=world.wall_seconds,
        grace=GRACE,
    )
    chosen = None if intent.chosen is None else conversation_from(intent.chosen)
    resumed = None if intent.resumed is None else conversation_from(intent.resumed)
    reader = scene.runner.reader(is_quiet=scene.settings.verbosity == "quiet")
    watch = _Watch(scene, reader, chosen) if resumed is None else None

    def feed(stream: Stream, data: bytes, upto: int) -> None:
        _tell(scene, intent.number, stream, upto, reader.feed(data) if stream == "out" else reader.feed_err(data))
        if watch is not None:
            watch.look()

    ended = await follow(scene.journal, world, order, feed, lambda: reader.last_word_seen)
    if isinstance(ended, NotStarted):
        return _not_started(scene, program, ended)
    _tell(scene, intent.number, "out", ended.out, reader.end())
    return judged(scene.settings.runner, reader, ended, chosen=chosen, resumed=resumed)


@dataclass(slots=True)
class _Watch:
    """Remembers a new conversation as soon as its stream names it: the agent, the run or the machine may end at any moment."""

    scene: Scene
    reader: Reader
    chosen: Conversation | None
    kept: str | None = None

    def look(self) -> None:
        """After each piece of output."""
        found = self.reader.interrupted(chosen=self.chosen)
        if found is not None and (named := conversation_json(found)) != self.kept:
            self.kept = named
            self.scene.keep(named, "reported")


def _remember(scene: Scene, intent: Intent, result: Result) -> None:
    """Rides with the result's commit: what is continued later is never older than what was done."""
    if result.verdict == "succeeded":
        scene.remember(result.conversation)
    elif result.verdict == "gone" and intent.resumed is not None:
        scene.keep(intent.resumed, "gone")
    elif result.conversation is not None:
        scene.keep(result.conversation, "reported")
    elif intent.resumed is None:
        scene.remember(None)  # a stream that reported a failure leaves nothing to go on with


def _tell(scene: Scene, number: int, stream: Stream, upto: int, pieces: list[Piece]) -> None:
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


def _not_found(scene: Scene, name: str) -> Result:
    runner, path = scene.settings.runner, scene.world.run.env.get("PATH", "")
    reason = f"The program of {runner}, {name}, was not found or cannot be executed."
    return Result(verdict="missing", reason=reason, hint=f"{install_hint(runner)} It was looked for on PATH={path}.")


def _not_started(scene: Scene, program: str, ended: NotStarted) -> Result:
    why = f"{os.strerror(ended.errno)} ({ended.stage})"
    if ended.stage == "barred":
        return Result(verdict="stopped", reason=f"{program} was not started, since the run was being ended.")
    if ended.stage == "exec" and ended.errno == 2:
        why = "its interpreter is missing (the first line of the file names it)"
    return Result(verdict="missing", reason=f"{program} could not be started: {why}.", hint=install_hint(scene.settings.runner))

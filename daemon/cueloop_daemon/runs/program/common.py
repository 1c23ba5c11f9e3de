"""What several scopes need: stamps, events, codecs, the run's words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

import anyio
import anyio.to_thread
from pydantic import TypeAdapter

from cueloop_daemon.core.runs import ends
from cueloop_daemon.core.stamps import format_stamp
from cueloop_daemon.runs.state import Ending, State
from cueloop_daemon.runs.types import Journal, NoticeKind, World
from cueloop_protocol.documents.blocking import BlockingState
from cueloop_protocol.documents.decision import Decision
from cueloop_protocol.documents.envelope import BlockedStateChanged, Phase, ResumeDecision, RunMode, Warned
from cueloop_protocol.documents.error import ErrorDocument

P = ParamSpec("P")
T = TypeVar("T")

TEXT: TypeAdapter[str] = TypeAdapter(str)
MAYBE_TEXT: TypeAdapter[str | None] = TypeAdapter(str | None)
TEXTS: TypeAdapter[tuple[str, ...]] = TypeAdapter(tuple[str, ...])
NUMBER: TypeAdapter[int] = TypeAdapter(int)
FLAG: TypeAdapter[bool] = TypeAdapter(bool)
NOTHING: TypeAdapter[None] = TypeAdapter(None)

WORDS: dict[int, Phase] = {1: "plan", 2: "implement", 3: "review"}
"""The app's words for the phases; a single phase is `implement`."""


def mode_of(world: World) -> RunMode:
    """`run resume` is a loop."""
    return "one" if world.run.params.mode == "one" else "loop"


def stamp(world: World) -> str:
    """The present moment as events and files have it. Only where `World.now` may be asked."""
    return format_stamp(world.now())


async def moment(journal: Journal, world: World, key: str) -> str:
    """The present moment, the same in each life."""
    return await journal.note(key, later(lambda: stamp(world)), TEXT)


def later(make: Callable[[], T]) -> Callable[[], Awaitable[T]]:
    """A plain function that does not block as the asynchronous one that a journal takes."""

    async def call() -> T:
        return make()

    return call


def beside(make: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Callable[[], Awaitable[T]]:
    """A function that blocks, in a worker thread, as the asynchronous one that a journal takes."""

    async def call() -> T:
        return await anyio.to_thread.run_sync(lambda: make(*args, **kwargs))

    return call


async def together(first: Callable[[], Awaitable[T]], second: Callable[[], Coroutine[Any, Any, None]]) -> T:
    """Both at the same time, each to its end; what `first` gives or raises. `second` raises nothing of its own."""
    made: T
    raised: Exception | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(second)
        try:
            made = await first()
        except Exception as exc:
            raised = exc
    if raised is not None:
        raise raised
    return made


def again(make: Callable[[], Awaitable[T]]) -> Callable[[bool], Awaitable[T]]:
    """An act that does not mind whether it was done before."""

    async def act(_again: bool) -> T:
        return await make()

    return act


async def warn(
    journal: Journal, world: World, key: str, message: str, *, task_id: str | None = None, exit_code: int | None = None
) -> None:
    """Say a `warning`, once in all lives."""
    at = await moment(journal, world, f"{key}/at")
    await journal.emit(key, Warned(timestamp=at, run_mode=mode_of(world), task_id=task_id, exit_code=exit_code, message=message))


async def decided(journal: Journal, world: World, key: str, decision: Decision) -> None:
    """Say a `resume_decision`."""
    at = await moment(journal, world, f"{key}/at")
    await journal.emit(
        key,
        ResumeDecision(
            timestamp=at, run_mode=mode_of(world), task_id=decision.task_id, message=decision.message, payload=decision
        ),
    )


async def blocked(journal: Journal, world: World, key: str, state: BlockingState) -> None:
    """Say a `blocked_state_changed`."""
    at = await moment(journal, world, f"{key}/at")
    await journal.emit(
        key,
        BlockedStateChanged(timestamp=at, run_mode=mode_of(world), task_id=state.task_id, message=state.message, payload=state),
    )


async def notify(journal: Journal, world: World, key: str, title: str, text: str, *, kind: NoticeKind) -> None:
    """Show it on the desktop, at most once: a life that cannot know whether an earlier one did shows nothing."""

    async def act(was_begun: bool) -> None:
        if not was_begun:
            world.notify.send(title, text, kind=kind)

    await journal.converge(key, act, NOTHING)


def ended(state: State, ending: Ending) -> State:
    """The state that closes the run with this ending."""
    return state.model_copy(update={"next": "close", "ending": ending})


def failed(state: State, error: ErrorDocument) -> State:
    """The run ends as failed."""
    return ended(state, Ending(outcome="failed", exit_code=1, error=error))


def failed_with(state: State, code: str, message: str, detail: str | None = None) -> State:
    """The run ends as failed, for this reason."""
    return failed(state, ends.error(code, message, detail))

"""One child of the shim: the order, its output as it grows, its end. What became of it is on record once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import anyio.to_thread
from pydantic import BaseModel, ConfigDict, TypeAdapter

from cueloop_daemon.runs.program.common import NUMBER, TEXT, later
from cueloop_daemon.runs.types import Exited, Grown, Journal, NotStarted, Order, World

PIECE = 256 * 1024
GRACE = 5.0
KEPT = 4 * 1024 * 1024
"""Bytes of a command's output that are kept, from its end."""
SHOWN = 16 * 1024
"""Bytes from each end that a message shows."""


class Intent(BaseModel):
    """A child that is to be started: its number, and a token that ties the number to this very step."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    number: int
    token: str


class Done(BaseModel):
    """How a command ended. `exit_code` is None for one that did not end by itself, or could not be started."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    exit_code: int | None
    output: str
    failure: str | None = None

    @property
    def last_line(self) -> str:
        """Its last words, for one sentence."""
        lines = [line for line in self.output.strip().splitlines() if line.strip()]
        return self.failure or (lines[-1][:300] if lines else f"exit code {self.exit_code}")


INTENT: TypeAdapter[Intent] = TypeAdapter(Intent)
DONE: TypeAdapter[Done] = TypeAdapter(Done)


@dataclass(slots=True)
class _Tail:
    """The end of what was printed, both streams as they came."""

    data: bytearray = field(default_factory=bytearray)

    def feed(self, stream: Literal["out", "err"], data: bytes, upto: int) -> None:
        self.data += data
        if len(self.data) > 2 * KEPT:
            del self.data[:-KEPT]

    def text(self) -> str:
        return bytes(self.data[-KEPT:]).decode("utf-8", "replace")


async def intend(journal: Journal, world: World, key: str) -> Intent:
    """The intent for one child, the same in each life."""
    number = await journal.note(f"{key}/number", later(journal.order_number), NUMBER)
    token = await journal.note(f"{key}/token", later(world.new_id), TEXT)
    return Intent(number=number, token=token)


async def run_command(
    journal: Journal, world: World, key: str, kind: Literal["ci", "git"], argv: tuple[str, ...], wall: float = 1800.0
) -> Done:
    """Run a program in the root, standard input closed, and give its end and the end of its output."""
    intent = await intend(journal, world, key)

    async def act(wanted: Intent, again: bool) -> Done:
        program = world.find_program(argv[0])
        if program is None:
            return Done(exit_code=None, output="", failure=f"{argv[0]} was not found on the PATH")
        env = {**world.run.env, "CUELOOP_RUN_ID": world.run.run_id}
        order = Order(wanted.number, wanted.token, kind, (program, *argv[1:]), env, None, None, wall, GRACE)
        tail = _Tail()
        ended = await follow(journal, world, order, tail.feed)
        if isinstance(ended, NotStarted):
            return Done(exit_code=None, output="", failure=f"{argv[0]} could not be started (errno {ended.errno})")
        if ended.cause == "wall":
            return Done(exit_code=None, output=tail.text(), failure=f"{argv[0]} did not end within {wall:.0f} s")
        code = ended.code if ended.code is not None else 128 + (ended.signal or 0)
        return Done(exit_code=code, output=tail.text())

    return await journal.step(key, intent, act, INTENT, DONE)


Feed = Callable[[Literal["out", "err"], bytes, int], None]


async def follow(
    journal: Journal, world: World, order: Order, feed: Feed, wants_end: Callable[[], bool] = lambda: False
) -> Exited | NotStarted:
    """Start a child and hand on its output until it has ended. `feed(stream, data, upto)`: `upto` is the offset behind `data`.

    When `wants_end()` says so, the child has 30 seconds to leave. Raises RunCancelled, ShimGone.
    """
    started = await world.link.start(order)
    if isinstance(started, NotStarted):
        return started
    read: dict[Literal["out", "err"], int] = {"out": 0, "err": 0}
    hurried = False
    news = world.link.follow(order.number)
    while True:
        found: Grown | Exited = await journal.wait(anext(news))
        for stream, size in (("out", found.out), ("err", found.err)):
            await _read(world, order.number, stream, size, read, feed)  # type: ignore[arg-type]  # the two literals
        if isinstance(found, Exited):
            return found
        if not hurried and wants_end():
            hurried = True
            await world.link.limits(order.number, leave_within=30.0)


async def _read(
    world: World,
    number: int,
    stream: Literal["out", "err"],
    size: int,
    read: dict[Literal["out", "err"], int],
    feed: Feed,
) -> None:
    while read[stream] < size:
        begin, data = await anyio.to_thread.run_sync(world.folder.read, number, stream, read[stream], PIECE)
        if not data:
            return
        read[stream] = begin + len(data)
        feed(stream, data, read[stream])


def both_ends(text: str) -> str:
    """A long output as its beginning and its end."""
    if len(text) <= 2 * SHOWN:
        return text
    return f"{text[:SHOWN]}\n[… {len(text) - 2 * SHOWN} characters left out …]\n{text[-SHOWN:]}"

"""One child of the shim: the order that starts it, its output as it grows, its end."""

from __future__ import annotations

from collections.abc import Callable

import anyio.to_thread
from pydantic import BaseModel, ConfigDict, TypeAdapter

from cueloop_daemon.runs.program.common import NUMBER, TEXT, later
from cueloop_daemon.runs.types import Exited, Grown, Journal, NotStarted, Order, RunCancelled, Stream, World

PIECE = 256 * 1024
GRACE = 5.0
LEAVE_WITHIN = 30.0
"""Seconds that an agent has to go after its last word."""

Feed = Callable[[Stream, bytes, int], None]
"""Called with each piece of output; the number is the offset behind it."""


class Intent(BaseModel):
    """A child that is to be started: its number, and a token that ties the number to this very step."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    number: int
    token: str


INTENT: TypeAdapter[Intent] = TypeAdapter(Intent)


async def intend(journal: Journal, world: World, key: str) -> Intent:
    """The intent for one child, the same in each life."""
    number = await journal.note(f"{key}/number", later(journal.order_number), NUMBER)
    token = await journal.note(f"{key}/token", later(world.new_id), TEXT)
    return Intent(number=number, token=token)


async def follow(
    journal: Journal,
    world: World,
    order: Order,
    feed: Feed,
    wants_end: Callable[[], bool] = lambda: False,
    *,
    must_end: bool = False,
) -> Exited | NotStarted:
    """Start a child and hand on its output until it has ended.

    When `wants_end()` says so, the child has 30 seconds to leave. Raises RunCancelled, unless the child `must_end` by itself
    whatever happens to the run; and what the link raises.
    """
    started = await world.link.start(order)
    if isinstance(started, NotStarted):
        return started
    read: dict[Stream, int] = {"out": 0, "err": 0}
    is_hurried = is_cancelled = False
    news = world.link.follow(order.number)
    while True:
        try:
            found: Grown | Exited = await (anext(news) if is_cancelled else journal.wait(anext(news)))
        except RunCancelled:
            if not must_end:
                raise
            is_cancelled, news = True, world.link.follow(order.number)
            continue
        await _read(world, order.number, "out", found.out, read, feed)
        await _read(world, order.number, "err", found.err, read, feed)
        if isinstance(found, Exited):
            return found
        if not is_hurried and wants_end():
            is_hurried = True
            await world.link.limits(order.number, leave_within=LEAVE_WITHIN)


async def _read(world: World, number: int, stream: Stream, size: int, read: dict[Stream, int], feed: Feed) -> None:
    while read[stream] < size:
        begin, data = await anyio.to_thread.run_sync(world.folder.read, number, stream, read[stream], PIECE)
        if not data:
            return
        read[stream] = begin + len(data)
        feed(stream, data, read[stream])

"""A piece of work with tasks beside it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

T = TypeVar("T")


async def accompanied(body: Callable[[], Awaitable[T]], *beside: Callable[[], Awaitable[None]]) -> T:
    """What `body` gives, with tasks beside it that end when it does.

    What it or one of them raises ends the others, and comes out as it is, the first of it: in a group no `except` would fit.
    """
    raised: list[Exception] = []
    made: list[T] = []

    async def attend(one: Callable[[], Awaitable[None]]) -> None:
        try:
            await one()
        except Exception as exc:
            raised.append(exc)
            tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for one in beside:
            tasks.start_soon(attend, one)
        try:
            made.append(await body())
        except Exception as exc:
            raised.append(exc)
        tasks.cancel_scope.cancel()
    if raised:
        raise raised[0]
    return made[0]

"""A piece of work with tasks beside it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import anyio


async def accompanied(body: Callable[[], Awaitable[None]], *beside: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run `body`, with tasks beside it that end when it does. What it raises comes out as it is, not in a group."""
    raised: Exception | None = None
    async with anyio.create_task_group() as tasks:
        for one in beside:
            tasks.start_soon(one)
        try:
            await body()
        except Exception as exc:
            raised = exc
        tasks.cancel_scope.cancel()
    if raised is not None:
        raise raised

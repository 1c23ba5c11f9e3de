"""The shim of one run for the engine: `carrier.Carrier` over a link and a folder."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable
from functools import partial

import anyio

from cueloop_daemon.core.model import ShimProcess
from cueloop_daemon.runs.shim import Ended, Folder, Means, ShimLink, clear_up, end_shim
from cueloop_daemon.store.not_writable import NotWritable
from cueloop_protocol.values import dataclass

logger = logging.getLogger(__name__)

LOOK = 1.0
"""Seconds between two questions to a shim whose child is waited for."""


@dataclass(frozen=True, slots=True)
class ShimCarrier:
    """See `carrier.Carrier`."""

    link: ShimLink
    folder: Folder
    shim: ShimProcess
    means: Means

    async def quiet(self) -> None:
        while True:  # the shim tells of a child's end only to who follows it
            if (await self.link.status()).child is None:
                return
            await anyio.sleep(LOOK)

    async def lost(self) -> None:
        await self.link.lost.wait()

    async def dismissed(self) -> None:
        await self.link.cancelled.wait()

    async def abort(self) -> None:
        await _quietly(self.folder, partial(end_shim, self.folder, self.means))
        self.folder.close()

    async def end(self) -> None:
        with anyio.move_on_after(self.means.grace), contextlib.suppress(Exception):
            await self.link.end()
        await see_off(self.folder, self.means)
        self.folder.close()


async def see_off(folder: Folder, means: Means) -> Ended | None:
    """Clear up behind a shim; one that is not gone by then is ended first. None: what could not be done is in the log."""
    ended = await _quietly(folder, partial(clear_up, folder, means))
    if ended is None or not ended.is_gone:
        ended = await _quietly(folder, partial(end_shim, folder, means))
    return ended


async def _quietly(folder: Folder, act: Callable[[], Awaitable[Ended]]) -> Ended | None:
    try:
        return await act()
    except (NotWritable, OSError) as exc:
        logger.warning("shim_not_cleared_up run_id=%s reason=%s", folder.run_id, exc)
        return None

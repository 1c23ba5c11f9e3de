"""The stop marker: seen, written down, and only then removed, so that a wish to stop is neither lost nor heeded twice."""

from __future__ import annotations

from cueloop_daemon.runs.program.common import NOTHING, TEXT, beside
from cueloop_daemon.runs.types import Journal, World


async def remove_marker(journal: Journal, world: World, key: str, marker: str) -> None:
    """Remove this very marker, once it is on record that it was seen. One that came after it stays."""

    async def act(seen: str, again: bool) -> None:
        await beside(world.stop_marker.remove, seen)()

    await journal.step(key, marker, act, TEXT, NOTHING)

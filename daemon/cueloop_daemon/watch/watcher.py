"""What every way of watching has in common. A hint says "something may have changed, look again" and nothing more."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from anyio.abc import TaskStatus

from cueloop_protocol.values import dataclass

SAFETY_POLL = 5.0
"""Seconds after which a change is found that came without an event: some file systems have none, a new mode gives none."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to watch, as paths for system calls; nothing of it has to exist. In a folder every entry counts."""

    folders: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()


class WatchFailed(Exception):
    """This way of watching cannot be used now; `str()` is a sentence for people that names the limit and its remedy."""


class Watcher(Protocol):
    """Gives hints while `run` runs. A hint has no path, and one may stand for many changes, or for none."""

    @property
    def backend(self) -> str:
        """`inotify`, `watchfiles` or `polling`."""
        ...

    @property
    def degraded(self) -> str | None:
        """A sentence for people if changes are found more slowly than they should be, else None."""
        ...

    def set_paths(self, folders: Iterable[str], files: Iterable[str] = ()) -> None:
        """Watch these from now on instead of what was watched before. A hint follows once they are; call it on the event loop."""
        ...

    async def run(self, on_hint: Callable[[], None], *, task_status: TaskStatus[None]) -> None:
        """Watch until cancelled; started when the paths set before are watched. `on_hint` is called on the event loop."""
        ...

"""The settings as their file says now, looked at as often as somebody asks."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

import anyio

from cueloop_daemon.core.model import Unusable
from cueloop_daemon.store.settings import Settings, SettingsState

logger = logging.getLogger(__name__)

EVERY = 2.0
"""Seconds between two looks."""

Seen = tuple[int, int, int, int] | None


class SettingsUnusable(Exception):
    """`why` says which file, what is wrong with it and what to do."""

    def __init__(self, why: Unusable) -> None:
        super().__init__(why.message)
        self.why = why


class LivingSettings:
    """What was last usable of the file. `now` is replaced, never changed."""

    def __init__(self, path: str, read: Callable[[], SettingsState]) -> None:
        """Blocking. `read` reads the file at `path`. Raises SettingsUnusable: nothing begins with settings that it cannot use."""
        self._path = path
        self._read = read
        self._seen = _seen(path)
        found = read().settings
        if isinstance(found, Unusable):
            raise SettingsUnusable(found)
        self.now = found

    def look(self) -> Settings | Unusable | None:
        """What the file says since it last changed; None where it did not. Blocking. What is unusable leaves `now` as it is."""
        seen = _seen(self._path)
        if seen == self._seen:
            return None
        self._seen = seen
        found = self._read().settings
        if isinstance(found, Settings):
            if found == self.now:
                return None
            self.now = found
        return found


async def follow(settings: LivingSettings, take: Callable[[Settings], None], warn: Callable[[str], None]) -> None:
    """Look until cancelled. `take` gets what changed; `warn` is told of a file that cannot be used, once for each state of it."""
    while True:
        await anyio.sleep(EVERY)
        found = await anyio.to_thread.run_sync(settings.look)
        if isinstance(found, Settings):
            logger.info("settings_changed")  # at the old level
            take(found)
            logger.info("settings_taken log_level=%s", found.log_level)  # and at the new
        elif found is not None:
            warn(f"{found.message} What was read before stays in force. {found.detail or ''}".strip())


def _seen(path: str) -> Seen:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

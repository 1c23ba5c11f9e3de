"""Every few seconds: are lock, socket, locator and repository still ours, and does anybody need us?"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable

import anyio

from cueloop_daemon.server.listener import Listener
from cueloop_daemon.service.standing import listens
from cueloop_daemon.store.ownership import Ownership
from cueloop_daemon.watch.clock import Clock
from cueloop_protocol.place import PlaceError
from cueloop_protocol.roots import Root
from cueloop_protocol.shapes import ShutdownReason

logger = logging.getLogger(__name__)

EVERY = 2.0
"""Seconds between two looks. A daemon that lost its socket, its lock or its repository has noticed after that."""

GONE_FOR = 3.0
"""Seconds that `.cueloop` must be missing before the repository counts as gone: a checkout takes it away for a moment."""

FRESHEN_EVERY = 24 * 3600.0
"""Seconds after which the files in `/tmp` are touched, so that cleaners leave them alone."""


class Housekeeping:
    """Keeps the daemon where its clients look for it, and lets it leave when its place is gone or nobody comes."""

    def __init__(
        self,
        root: Root,
        ownership: Ownership,
        listener: Listener,
        leave: Callable[[ShutdownReason], None],
        restore_locator: Callable[[str], None],
        elsewhere: Callable[[], str] | None = None,
    ) -> None:
        """`elsewhere` makes the other place for a socket, and gives its path. Raises PlaceError."""
        self._elsewhere = elsewhere
        self._root = root
        self._ownership = ownership
        self._listener = listener
        self._leave = leave
        self._restore_locator = restore_locator
        self._missing_since: float | None = None

    async def run(
        self,
        clock: Clock,
        idle_minutes: Callable[[], int],
        traffic: Callable[[], tuple[int, int]],
        is_busy: Callable[[], bool],
    ) -> None:
        """Look around until cancelled. `idle_minutes` 0: never leave for want of callers.

        `traffic`: how many connections there are, and how many there ever were; most calls come and go between two looks.
        `is_busy`: whether there is something to do although nobody calls.
        """
        used = freshened = clock.monotonic()
        _, seen = traffic()
        while True:
            await anyio.sleep(EVERY)
            now = clock.monotonic()
            connected, ever = traffic()
            if connected or ever != seen or is_busy():
                used, seen = now, ever
            minutes = idle_minutes()
            if minutes and now - used > minutes * 60:
                self._leave("idle")
            if now - freshened > FRESHEN_EVERY:
                self._ownership.freshen()
                freshened = now
            self.look(now)

    def look(self, now: float) -> None:
        """One look. Restores what can be, leaves where it cannot."""
        if not os.path.isdir(self._root.join(".cueloop")):
            if self._missing_since is None:
                self._missing_since = now
            elif now - self._missing_since >= GONE_FOR:
                self._leave("repository_gone")
            return
        self._missing_since = None
        if not self._ownership.still_ours():
            logger.error("ownership_lost remedy=%s", "another daemon may own the repository; this one leaves")
            self._leave("replaced")
            return
        if not self._listener.still_ours() and not self._restore_socket():
            return
        self._restore_locator(self._listener.path)

    def _restore_socket(self) -> bool:
        """Give the socket a name again; False if there is nothing to be done but to leave."""
        listener = self._listener
        if listens(listener.path):
            # A service manager has put its own there. We have just called it; the daemon that it starts waits for our end.
            logger.warning("socket_taken_over path=%s", listener.path)
            self._leave("replaced")
            return False
        try:
            if listener.is_managed:
                raise FileNotFoundError(errno.ENOENT, "the service manager's socket has lost its name", listener.path)
            listener.rebind()
        except OSError as exc:
            if self._rebound_elsewhere(exc):
                return True
            logger.error("socket_not_restored path=%s error=%s", listener.path, exc)
            self._leave("replaced")
            return False
        logger.warning("socket_restored path=%s", listener.path)
        return True

    def _rebound_elsewhere(self, why: OSError) -> bool:
        """Where the folder has gone (a logout takes the runtime folder away), or the name is not ours to make."""
        try:
            path = self._elsewhere() if self._elsewhere is not None else self._listener.path
            if path == self._listener.path:
                return False
            self._listener.rebind(path)
        except (OSError, PlaceError):
            return False
        logger.warning("socket_moved path=%s reason=%s remedy=%s", path, why, "restart the socket unit, if there is one")
        return True

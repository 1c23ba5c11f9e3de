"""A test marked `alone` measures time, or takes what there is once on a machine: no other worker runs a test meanwhile."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DOOR = Path(__file__)
ROOM = Path(__file__).with_name("__init__.py")
"""Files to lock that are there anyway, so that nothing has to be made or removed; two runs in one work tree are apart too."""


class Room:
    """Where tests run, of one worker each. Who wants it alone shuts the door first, so that the others cannot starve it."""

    def __init__(self, door: Path = DOOR, room: Path = ROOM) -> None:
        self._door, self._room = (os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path in (door, room))

    @contextmanager
    def entered(self, *, alone: bool) -> Iterator[None]:
        """Wait until one may enter, and be inside; alone or with others who did not ask for that."""
        fcntl.flock(self._door, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        finally:
            fcntl.flock(self._door, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(self._room, fcntl.LOCK_UN)

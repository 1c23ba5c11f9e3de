"""The lock that lets one caller start the daemon while others wait. Standard library only."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager, suppress
from threading import Condition, Thread

from cueloop_client.failures import Silent, StartFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from cueloop_client.world import Deadline


@contextmanager
def start_lock(path: str, deadline: Deadline) -> Iterator[None]:
    """Hold the exclusive lock on `path`. Raises Silent if others hold it until the deadline, StartFailed if it cannot be opened.

    Where the file system has no locks nothing is held: the daemon's own locks decide, and this one only saves idle starts.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as exc:
        raise StartFailed(
            f"The daemon cannot be started: {path} cannot be opened ({exc.strerror}).",
            "Make its folder writable, or free space there.",
            word="permission_denied" if isinstance(exc, PermissionError) else "unknown",
        ) from exc
    if not _Turn(fd).wait(deadline.left()):
        raise Silent(
            f"Another command has been starting the daemon for {deadline.seconds:g} s.",
            "Try again, or answer without it by --no-daemon.",
        )
    try:
        yield
    finally:
        os.close(fd)


class _Turn:
    """Waits for the lock in a thread of its own: `flock` knows no time limit, and polling is unfair among a hundred."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._changed = Condition()
        self._state = "waiting"

    def wait(self, seconds: float) -> bool:
        """Whether the lock was had within the time. If not, the descriptor is no longer the caller's: it is closed here."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            Thread(target=self._block, daemon=True).start()
        except OSError:
            return True
        with self._changed:
            if self._changed.wait_for(lambda: self._state == "held", seconds):
                return True
            self._state = "given up"
            return False

    def _block(self) -> None:
        with suppress(OSError):
            fcntl.flock(self._fd, fcntl.LOCK_EX)
        with self._changed:
            if self._state == "given up":
                os.close(self._fd)
            else:
                self._state = "held"
                self._changed.notify()

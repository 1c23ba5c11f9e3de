"""After a start that failed the next ones wait a little and tell the same reason: a broken set-up makes no storm of starts.

Standard library only.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress

from cueloop_client.failures import StartFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
"""Seconds: long enough to stop a storm, short enough for a person who has just repaired something."""
RECORD_LIMIT = 64 * 1024


class Backoff:
    """How often the start failed in a row, why, and when the next may be tried. Kept in a file that its user alone can write."""

    def __init__(self, path: str, wall: Callable[[], float]) -> None:
        self._path = path
        self._wall = wall

    def check(self) -> None:
        """Raises StartFailed with the last reason while the pause after it lasts."""
        last = self._read()
        if last is None:
            return
        count, at, failure = last
        # A time stamp from the future (a clock set back) says nothing.
        left = at + pause_after(count) - self._wall()
        if at > self._wall() or left <= 0:
            return
        times = "once" if count == 1 else f"{count} times in a row"
        more = f"The start failed {times}; the next is tried in {left:.0f} s, or at once by `cueloop daemon start`."
        raise StartFailed(failure.message, f"{failure.detail}\n{more}" if failure.detail else more, word=failure.word)

    def last(self) -> StartFailed | None:
        """Why the last start failed; None if it did not."""
        last = self._read()
        return None if last is None else last[2]

    def record(self, failure: StartFailed) -> None:
        """The start failed once more. Where this cannot be written down, the next start is tried at once."""
        last = self._read()
        count = last[0] + 1 if last is not None else 1
        data = {"count": count, "at": self._wall(), "word": failure.word, "message": failure.message, "detail": failure.detail}
        with suppress(OSError):
            fd = os.open(f"{self._path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with open(fd, "w", encoding="ascii") as file:
                json.dump(data, file)
            os.replace(f"{self._path}.new", self._path)

    def clear(self) -> None:
        """A daemon is there: earlier failures do not count any more."""
        with suppress(OSError):
            os.unlink(self._path)

    def _read(self) -> tuple[int, float, StartFailed] | None:
        try:
            with open(self._path, "rb") as file:
                raw: object = json.loads(file.read(RECORD_LIMIT))
        except (OSError, ValueError, RecursionError):
            return None
        if not isinstance(raw, dict):
            return None
        count, at, word, message, detail = (raw.get(key) for key in ("count", "at", "word", "message", "detail"))
        if type(count) is not int or count < 1 or not isinstance(at, float) or not isinstance(word, str):
            return None
        if not isinstance(message, str) or not isinstance(detail, str | None):
            return None
        return count, at, StartFailed(message, detail, word=word)


def pause_after(count: int) -> float:
    """Seconds between the `count`-th failure in a row and the next attempt."""
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(count - 1, 30))

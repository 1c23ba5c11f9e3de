"""Output on the disk: segments of a child's streams, and the budget that all children of a run share. Standard library only.

Offsets are logical: byte `k * SEGMENT + i` of a stream is byte `i` of its segment `k`, for ever. Of the budget the first half goes
to what came first, which stays. Afterwards each new segment pushes out the oldest of those behind the first half.
"""

from __future__ import annotations

import os

from cueloop_daemon.shim.lean import suppress
from cueloop_daemon.shim.wire import SEGMENT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

FEWEST = 6
"""Segments that a budget has at least: either half must hold the two being written and one more."""


class Segment:
    """One file of a stream. `size` counts once it is closed; until then it may become a whole segment."""

    def __init__(self, name: str, stream: Stream) -> None:
        self.name = name
        self.stream = stream
        self.size: int | None = None


class _Half:
    """Segments in the order in which they began, and how large they may become altogether."""

    def __init__(self, segment: int) -> None:
        self._segment = segment
        self.members: list[Segment] = []
        self.most = 0

    def add(self, segment: Segment) -> None:
        self.members.append(segment)
        self.most += self._segment

    def close(self, segment: Segment, size: int) -> None:
        if segment in self.members:
            segment.size = size
            self.most -= self._segment - size

    def drop_oldest(self) -> Segment | None:
        """Take out the oldest that is closed; None if none is."""
        for index, one in enumerate(self.members):
            if one.size is not None:
                self.most -= one.size
                return self.members.pop(index)
        return None


class Budget:
    """Which segments of the run there are. `limit` in bytes, at least FEWEST segments."""

    def __init__(self, folder: int, limit: int, segment: int = SEGMENT) -> None:
        self.segment = segment
        self._folder = folder
        self._half = max(limit, FEWEST * segment) // 2
        self._first = _Half(segment)
        self._last = _Half(segment)

    def begin(self, stream: Stream, number: int) -> tuple[int, Segment]:
        """A descriptor for the stream's new segment, after room was made for it. Raises OSError."""
        segment = Segment(f"{stream.name}.{number}", stream)
        is_first = not self._last.members and self._first.most + self.segment <= self._half
        if not is_first:
            self._make_room()
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(segment.name, flags, 0o600, dir_fd=self._folder)
        (self._first if is_first else self._last).add(segment)
        return fd, segment

    def close(self, segment: Segment, size: int) -> None:
        """The segment is complete."""
        self._first.close(segment, size)
        self._last.close(segment, size)

    def _make_room(self) -> None:
        while self._last.most + self.segment > self._half and (oldest := self._last.drop_oldest()) is not None:
            with suppress(OSError):
                os.unlink(oldest.name, dir_fd=self._folder)
            oldest.stream.dropped += oldest.size or 0


class Stream:
    """One stream of one child. `name` is `<n>.out` or `<n>.err`; `size` its logical size; `dropped` its bytes that are lost."""

    def __init__(self, budget: Budget, name: str, trouble: Callable[[str, int], None]) -> None:
        self.name = name
        self.size = 0
        self.dropped = 0
        self._budget = budget
        self._trouble = trouble
        self._open: tuple[int, int, Segment] | None = None
        self._is_torn = False

    def write(self, data: bytes) -> None:
        """Keep the bytes. What the disk does not take is counted and left out: the child must not feel it."""
        rest = memoryview(b"\n" + data if self._is_torn else data)  # two halves of lines must never become one line
        try:
            while rest:
                rest = rest[self._write(rest) :]
                self._is_torn = False
        except OSError as exc:
            self.dropped += min(len(rest), len(data))
            self._is_torn = self.size > 0
            self._trouble("output", exc.errno or 0)

    def close(self) -> None:
        """No more is coming."""
        if self._open is not None:
            number, fd, segment = self._open
            os.close(fd)
            self._budget.close(segment, self.size - number * self._budget.segment)
            self._open = None

    def _write(self, data: memoryview) -> int:
        number, inside = divmod(self.size, self._budget.segment)
        if self._open is None or self._open[0] != number:
            self.close()
            self._open = (number, *self._budget.begin(self, number))
        taken = os.pwrite(self._open[1], data[: self._budget.segment - inside], inside)
        self.size += taken
        return taken

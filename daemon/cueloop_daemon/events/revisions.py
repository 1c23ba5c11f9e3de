"""The revision counter: rises with each swap of a snapshot, and goes on rising after a crash."""

from __future__ import annotations

BLOCK = 4096
"""How far the floor on disk is ahead. A crash skips the rest of a block; a clean end skips nothing."""


class Revisions:
    """Counts from `floor` (what the log kept; everything up to it may have been told already)."""

    def __init__(self, floor: int) -> None:
        self.current = floor
        self._reserved = floor + BLOCK

    def next(self) -> int:
        """The next revision, greater than every one before it."""
        self.current += 1
        return self.current

    def to_reserve(self) -> int | None:
        """A new floor that must be written now, in good time before the old one is reached; None if there is room. Told once."""
        if self._reserved - self.current > BLOCK // 2:
            return None
        self._reserved = self.current + BLOCK
        return self._reserved

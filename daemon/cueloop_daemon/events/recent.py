"""The newest rows, in memory: for a subscriber that lags a little, and for all while the disk is out of use."""

from __future__ import annotations

from collections import deque
from itertools import islice

from cueloop_daemon.events.log import CHUNK_BYTES, CHUNK_ROWS
from cueloop_daemon.events.model import Row


class Recent:
    """Contiguous rows, as many as fit into `limit` bytes of params (at least one, if there was one)."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self._rows: deque[Row] = deque()

    def extend(self, rows: tuple[Row, ...]) -> None:
        """Add what follows the last row."""
        self._rows.extend(rows)
        self.bytes += sum(len(row.params) for row in rows)
        while self.bytes > self.limit and len(self._rows) > 1:
            self.bytes -= len(self._rows.popleft().params)

    @property
    def oldest(self) -> int | None:
        """The seq of the first row that is here."""
        return self._rows[0].seq if self._rows else None

    def clear(self) -> None:
        """Forget all: a new epoch begins."""
        self._rows.clear()
        self.bytes = 0

    def after(self, seq: int) -> tuple[Row, ...] | None:
        """A chunk of the rows after `seq`; None if the first of them is not here any more."""
        if not self._rows or seq + 1 < self._rows[0].seq:
            return None
        start = seq + 1 - self._rows[0].seq
        found: list[Row] = []
        size = 0
        for row in islice(self._rows, start, start + CHUNK_ROWS):
            size += len(row.params)
            if found and size > CHUNK_BYTES:
                break
            found.append(row)
        return tuple(found)

"""What was published and is not committed yet, in order, with a limit."""

from __future__ import annotations

from collections import deque
from itertools import islice

from cueloop_daemon.events.model import Group

GROUP_ROWS = 512
GROUP_BYTES = 1024 * 1024
"""A group ends at either, so that one commit stays below five milliseconds."""

ROOM_BYTES = 1024 * 1024
"""Above this, publishers of output should wait."""

MOST_BYTES = 32 * 1024 * 1024
"""Above this nothing more is accepted."""


class Pending:
    """A queue of groups. What was added as one group is committed as one."""

    def __init__(self) -> None:
        self._groups: deque[Group] = deque()
        self.bytes = 0
        self.added = 0
        """How many groups were ever added."""
        self.done = 0
        """How many of them are settled: committed."""

    def __bool__(self) -> bool:
        return bool(self._groups)

    def add(self, group: Group) -> None:
        """Put a group at the end."""
        self._groups.append(group)
        self.bytes += _size(group)
        self.added += 1

    def first(self, most_rows: int) -> tuple[Group, int]:
        """The groups at the front as one, and how many they are; they stay until `settle`. At least one, then what fits."""
        taken = [self._groups[0]]
        rows, size = len(taken[0].rows), _size(taken[0])
        for group in islice(self._groups, 1, None):
            rows, size = rows + len(group.rows), size + _size(group)
            if rows > min(most_rows, GROUP_ROWS) or size > GROUP_BYTES:
                break
            taken.append(group)
        return _joined(taken), len(taken)

    def settle(self, count: int) -> None:
        """The first `count` groups are committed."""
        for _ in range(count):
            self.bytes -= _size(self._groups.popleft())
        self.done += count


def _joined(groups: list[Group]) -> Group:
    if len(groups) == 1:
        return groups[0]
    revisions = [group.revision for group in groups if group.revision is not None]
    return Group(
        rows=tuple(row for group in groups for row in group.rows),
        announced=tuple(announced for group in groups for announced in group.announced),
        revision=revisions[-1] if revisions else None,
        marks=tuple(mark for group in groups for mark in group.marks),
        forgotten=tuple(run_id for group in groups for run_id in group.forgotten),
    )


def _size(group: Group) -> int:
    return sum(len(row.params) for row in group.rows) + sum(len(state or b"") for _, state in group.announced)

"""Queue and done file as a run changes them, so that the watch does not announce as somebody else's what the run announces itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from cueloop_daemon.runs.types import TaskFiles
from cueloop_protocol.documents.queue import Task


class OwnWrites:
    """Whether a run is writing the queue now, and how often it has. Read by the announcer; counted from one thread at a time."""

    def __init__(self) -> None:
        self.under_way = 0
        self.finished = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """While a write lasts."""
        self.under_way += 1
        try:
            yield
        finally:
            self.under_way -= 1
            self.finished += 1


class CountedFiles:
    """See `types.TaskFiles`; each change is counted."""

    def __init__(self, files: TaskFiles, writes: OwnWrites) -> None:
        self._files = files
        self._writes = writes

    def begin(self, task_id: str, now: str) -> Literal["changed", "already", "missing"]:
        with self._writes.one():
            return self._files.begin(task_id, now)

    def add_done(self, task_id: str, now: str) -> Literal["changed", "already", "missing"]:
        with self._writes.one():
            return self._files.add_done(task_id, now)

    def remove_from_queue(self, task_id: str) -> Literal["changed", "already"]:
        with self._writes.one():
            return self._files.remove_from_queue(task_id)

    def archive_settled(self, now: str) -> Literal["changed", "already"]:
        with self._writes.one():
            return self._files.archive_settled(now)

    def settled(self) -> tuple[str, ...]:
        return self._files.settled()

    def completed_twice(self) -> tuple[str, ...]:
        return self._files.completed_twice()

    def status(self, task_id: str) -> tuple[str | None, str | None]:
        return self._files.status(task_id)

    def task(self, task_id: str) -> Task | None:
        return self._files.task(task_id)

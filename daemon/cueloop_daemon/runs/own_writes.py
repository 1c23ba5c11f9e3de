"""Queue and done file as a run changes them, so that the watch does not announce as somebody else's what the run announces itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal

from cueloop_daemon.runs.types import TaskFiles
from cueloop_daemon.workspace.files import Signature, sign
from cueloop_daemon.workspace.loading import Loaded
from cueloop_protocol.documents.queue import Task


class OwnWrites:
    """Whether a run is writing the queue now, and how often it has. Read by the announcer; counted from one thread at a time."""

    def __init__(self) -> None:
        self.under_way = 0
        self.finished = 0
        self._left: Mapping[str, Signature] = {}

    @contextmanager
    def one(self, paths: Sequence[str]) -> Iterator[None]:
        """While a write lasts that may change these files."""
        self.under_way += 1
        try:
            yield
        finally:
            self._left = {path: sign(path) for path in paths}
            self.under_way -= 1
            self.finished += 1

    def are_in(self, loaded: Loaded | None) -> bool:
        """Whether what was read are the files as the last write left them, and nobody has written since."""
        read = {(thing.path, thing.signature) for thing in loaded.inputs} if loaded is not None else set()
        return all(left in read for left in self._left.items())


class CountedFiles:
    """See `types.TaskFiles`; each change is counted. `paths` are the files for system calls, as the workspace names them."""

    def __init__(self, files: TaskFiles, writes: OwnWrites, paths: Sequence[str]) -> None:
        self._files = files
        self._writes = writes
        self._paths = tuple(paths)

    def begin(self, task_id: str, now: str) -> Literal["changed", "already", "missing"]:
        with self._writes.one(self._paths):
            return self._files.begin(task_id, now)

    def add_done(self, task_id: str, now: str) -> Literal["changed", "already", "missing"]:
        with self._writes.one(self._paths):
            return self._files.add_done(task_id, now)

    def remove_from_queue(self, task_id: str) -> Literal["changed", "already"]:
        with self._writes.one(self._paths):
            return self._files.remove_from_queue(task_id)

    def archive_settled(self, now: str) -> Literal["changed", "already"]:
        with self._writes.one(self._paths):
            return self._files.archive_settled(now)

    def settled(self) -> tuple[str, ...]:
        return self._files.settled()

    def completed_twice(self) -> tuple[str, ...]:
        return self._files.completed_twice()

    def status(self, task_id: str) -> tuple[str | None, str | None]:
        return self._files.status(task_id)

    def task(self, task_id: str) -> Task | None:
        return self._files.task(task_id)

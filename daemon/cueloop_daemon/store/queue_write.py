"""Queue and done file as a run changes them: one change at a time, always on top of what others wrote.

The file is replaced by exchange and what came out is compared byte for byte with what was read; another writer's bytes go back and our
one change is made again on top of them. Only the task that is changed changes; comments do not survive a rewrite, values do.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable
from typing import Any, Literal

from cueloop_protocol.documents.queue import Task
from cueloop_protocol.roots import shown
from pydantic import ValidationError

from cueloop_daemon.runs.types import TaskConflict
from cueloop_daemon.store.atomic import Author, discard, write_temp
from cueloop_daemon.store.etag import etag_of_bytes
from cueloop_daemon.store.exchange import place_new, put_back, swap
from cueloop_daemon.store.jsonc import JsoncError, read_json
from cueloop_daemon.store.not_writable import not_writable
from cueloop_daemon.store.outcomes import OwnershipLost
from cueloop_daemon.store.system import System
from cueloop_daemon.workspace.files import read_regular

ATTEMPTS = 20
"""How often our change is made again on top of somebody else's before it is given up."""

SETTLED = ("done", "rejected")

Json = dict[str, Any]
Change = Callable[[list[Json]], bool]
"""Changes the tasks in place; False: there is nothing to change."""


class QueueFiles:
    """The queue and done file of one run. `io` and `done_io` are for system calls, links are followed. Blocking; one call at a time.

    Every change raises NotWritable, TaskConflict, and OwnershipLost where this daemon no longer owns the repository.
    """

    def __init__(self, io: str, done_io: str, system: System, author: Author, still_ours: Callable[[], bool]) -> None:
        self._io = io
        self._done_io = done_io
        self._system = system
        self._author = author
        self._still_ours = still_ours

    def begin(self, task_id: str, now: str) -> Literal["changed", "already"]:
        """`doing`, with `started_at` where it had none."""

        def change(tasks: list[Json]) -> bool:
            task = _find(tasks, task_id)
            if task is None or task.get("status", "todo") == "doing":
                return False
            _set(task, "status", "doing", after="id")
            task["updated_at"] = now
            task.setdefault("started_at", now)
            return True

        return self._change(self._io, change)

    def add_done(self, task_id: str, now: str) -> Literal["changed", "already", "missing"]:
        """The task, made `done`, at the end of the done file, unless its id is there."""
        if _find(self._tasks(self._done_io), task_id) is not None:
            return "already"
        task = _find(self._tasks(self._io), task_id)
        if task is None:
            return "missing"
        finished = dict(task)
        _set(finished, "status", "done", after="id")
        finished |= {"updated_at": now, "completed_at": now}

        def change(tasks: list[Json]) -> bool:
            if _find(tasks, task_id) is not None:
                return False
            tasks.append(finished)
            return True

        return self._change(self._done_io, change)

    def remove_from_queue(self, task_id: str) -> Literal["changed", "already"]:
        """Take the task out of the queue."""

        def change(tasks: list[Json]) -> bool:
            task = _find(tasks, task_id)
            if task is not None:
                tasks.remove(task)
            return task is not None

        return self._change(self._io, change)

    def archive_settled(self) -> Literal["changed", "already"]:
        """Move every task that is done or rejected from the queue to the done file, as it stands; the done file first."""
        settled = [task for task in self._tasks(self._io) if isinstance(task, dict) and task.get("status") in SETTLED]
        if not settled:
            return "already"
        names = {str(task.get("id", "")).strip() for task in settled}

        def add(tasks: list[Json]) -> bool:
            known = {str(task.get("id", "")).strip() for task in tasks if isinstance(task, dict)}
            new = [task for task in settled if str(task.get("id", "")).strip() not in known]
            tasks.extend(new)
            return bool(new)

        def remove(tasks: list[Json]) -> bool:
            kept = [task for task in tasks if not _is_settled(task, names)]
            changed = len(kept) != len(tasks)
            tasks[:] = kept
            return changed

        self._change(self._done_io, add)
        return self._change(self._io, remove)

    def status(self, task_id: str) -> tuple[str | None, str | None]:
        """(status in the queue, status in the done file); None where it is not there."""
        found = (_find(self._tasks(path), task_id) for path in (self._io, self._done_io))
        in_queue, in_done = (None if task is None else str(task.get("status", "todo")) for task in found)
        return in_queue, in_done

    def task(self, task_id: str) -> Task | None:
        """The whole task from the queue; None if it is not there or cannot be read."""
        task = _find(self._tasks(self._io), task_id)
        try:
            return None if task is None else Task.model_validate(task)
        except ValidationError:
            return None

    def _tasks(self, path: str) -> list[Json]:
        try:
            data, _ = read_regular(path)
        except OSError as exc:
            raise not_writable(exc, shown(path), "read") from exc
        return [] if data is None else _document(data, path)["tasks"]

    def _change(self, path: str, change: Change) -> Literal["changed", "already"]:
        if not self._still_ours():
            raise OwnershipLost(shown(path))
        target = os.path.realpath(path) if os.path.islink(path) else path
        try:
            for attempt in range(ATTEMPTS):
                if attempt:
                    time.sleep(min(0.001 * 2**attempt, 0.1))  # in a worker thread; the other writer gets a chance to end
                before, _ = read_regular(target)
                document: Json = {"version": 1, "tasks": []} if before is None else _document(before, path)
                if not change(document["tasks"]):
                    return "already"
                if self._replace(target, before, _printed(document)):
                    return "changed"
        except OSError as exc:
            raise not_writable(exc, shown(path)) from exc
        raise TaskConflict(f"{shown(path)} was changed by somebody else {ATTEMPTS} times in a row; nothing of theirs was lost.")

    def _replace(self, target: str, before: bytes | None, data: bytes) -> bool:
        """Put `data` where exactly `before` stands; False, and everything as it was, if something else stands there."""
        mode = 0o644 if before is None else stat.S_IMODE(os.stat(target).st_mode)
        temp = write_temp(self._system, target, data, self._author, mode)
        try:
            if before is None:
                done = place_new(self._system, temp, target)
            elif not swap(self._system, temp, target):
                done = self._replace_by_looking(temp, target, before)
            else:
                done = read_regular(temp)[0] == before
                if not done:
                    put_back(self._system, temp, target, etag_of_bytes(data))
            if done:
                self._system.fsync_folder(os.path.dirname(target))
            return done
        finally:
            discard(self._system, temp)

    def _replace_by_looking(self, temp: str, target: str, before: bytes) -> bool:
        """Where files cannot be exchanged: look, then replace."""
        if read_regular(target)[0] != before:
            return False
        self._system.replace(temp, target)
        return True


def _document(data: bytes, path: str) -> Json:
    try:
        document = read_json(data)
    except JsoncError as exc:
        raise TaskConflict(f"{shown(path)} cannot be read (line {exc.line}: {exc.reason}), so it is not changed.") from exc
    if not isinstance(document, dict) or not isinstance(document.get("tasks"), list):
        raise TaskConflict(f"{shown(path)} is no queue file, so it is not changed.")
    return document


def _printed(document: Json) -> bytes:
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()


def _find(tasks: list[Json], task_id: str) -> Json | None:
    wanted = task_id.strip()
    return next((task for task in tasks if isinstance(task, dict) and str(task.get("id", "")).strip() == wanted), None)


def _is_settled(task: object, names: set[str]) -> bool:
    """Whether this is one of the tasks that were archived, and nobody has opened it again meanwhile."""
    return isinstance(task, dict) and task.get("status") in SETTLED and str(task.get("id", "")).strip() in names


def _set(task: Json, key: str, value: str, *, after: str) -> None:
    """Set a key; one that was missing comes behind `after`, as it is printed."""
    if key in task:
        task[key] = value
        return
    items = list(task.items())
    task.clear()
    for name, old in items:
        task[name] = old
        if name == after:
            task[key] = value

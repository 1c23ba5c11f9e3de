"""Queue and done file as a run changes them: one change at a time, always on top of what others wrote. Nobody's task is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from pydantic import ValidationError

from cueloop_daemon.store.atomic import Author
from cueloop_daemon.store.system import System
from cueloop_daemon.store.tasks_file import Json, TasksFile
from cueloop_protocol.documents.queue import Task

SETTLED = ("done", "rejected")


class QueueFiles:
    """The queue and done file of one run. `io` and `done_io` are for system calls, links are followed. Blocking; one call at a time.

    Raises NotWritable and TasksUnreadable; every change also TaskConflict, and OwnershipLost where this daemon no longer owns the
    repository.
    """

    def __init__(self, io: str, done_io: str, system: System, author: Author, still_ours: Callable[[], bool]) -> None:
        self._queue = TasksFile(io, system, author, still_ours)
        self._done = TasksFile(done_io, system, author, still_ours)
        self._is_swept = False

    def begin(self, task_id: str, now: str) -> Literal["changed", "already", "missing"]:
        """`doing`, with `started_at` where it had none. `missing`: it is not in the queue."""
        is_there = False

        def change(tasks: list[Json]) -> bool:
            nonlocal is_there
            task = _find(tasks, task_id)
            is_there = task is not None
            if task is None or task.get("status", "todo") == "doing":
                return False
            _set(task, "status", "doing", after="id")
            task["updated_at"] = now
            task.setdefault("started_at", now)
            return True

        self._sweep()
        changed = self._queue.change(change)
        return "missing" if not is_there else _word(changed)

    def add_done(self, task_id: str, now: str) -> Literal["changed", "already", "missing"]:
        """The task, made `done`, at the end of the done file, unless its id is there."""
        self._sweep()
        if _find(self._done.tasks(), task_id) is not None:
            return "already"
        task = _find(self._queue.tasks(), task_id)
        if task is None:
            return "missing"
        finished = dict(task)
        _set(finished, "status", "done", after="id")
        finished |= {"updated_at": now, "completed_at": now}
        return _word(self._done.change(lambda tasks: _append_new(tasks, [finished])))

    def remove_from_queue(self, task_id: str) -> Literal["changed", "already"]:
        """Take the task out of the queue."""

        def change(tasks: list[Json]) -> bool:
            task = _find(tasks, task_id)
            if task is not None:
                tasks.remove(task)
            return task is not None

        self._sweep()
        return _word(self._queue.change(change))

    def archive_settled(self, now: str) -> Literal["changed", "already"]:
        """Move every task that is done or rejected from the queue to the done file, as it stands; the done file first.

        One that does not say when it was completed, which would make the done file invalid, was completed `now`.
        """
        self._sweep()
        settled = [{**task, "completed_at": task.get("completed_at") or now} for task in self._settled()]
        if not settled:
            return "already"
        names = {_id(task) for task in settled}

        def remove(tasks: list[Json]) -> bool:
            kept = [task for task in tasks if not (_is_settled(task) and _id(task) in names)]
            changed = len(kept) != len(tasks)
            tasks[:] = kept
            return changed

        self._done.change(lambda tasks: _append_new(tasks, settled))
        return _word(self._queue.change(remove))

    def settled(self) -> tuple[str, ...]:
        """The ids of the tasks that `archive_settled` would move now."""
        return tuple(_id(task) for task in self._settled())

    def completed_twice(self) -> tuple[str, ...]:
        """The ids of tasks that stand in both files as the same task, the one in the queue as it is left by a broken completion."""
        done = {_id(task): task for task in self._done.tasks()}
        return tuple(_id(task) for task in self._queue.tasks() if _is_same(task, done.get(_id(task))))

    def status(self, task_id: str) -> tuple[str | None, str | None]:
        """(status in the queue, status in the done file); None where it is not there."""
        found = (_find(file.tasks(), task_id) for file in (self._queue, self._done))
        in_queue, in_done = (None if task is None else str(task.get("status", "todo")) for task in found)
        return in_queue, in_done

    def task(self, task_id: str) -> Task | None:
        """The whole task from the queue; None if it is not there or cannot be read."""
        task = _find(self._queue.tasks(), task_id)
        try:
            return None if task is None else Task.model_validate(task)
        except ValidationError:
            return None

    def _settled(self) -> list[Json]:
        return [task for task in self._queue.tasks() if _is_settled(task)]

    def _sweep(self) -> None:
        """Once: tasks that a daemon took out of a file when it died, and that are in neither file, go back where they were."""
        if self._is_swept:
            return
        for file in (self._queue, self._done):
            for path, tasks in file.left_behind():
                known = {_id(task) for other in (self._queue, self._done) for task in other.tasks()}
                lost = [task for task in tasks if isinstance(task, dict) and _id(task) not in known]
                if lost:
                    file.change(lambda standing, lost=lost: _append_new(standing, lost))  # type: ignore[misc]  # bound for the loop
                file.drop(path)
        self._is_swept = True


def _word(changed: bool) -> Literal["changed", "already"]:
    return "changed" if changed else "already"


def _find(tasks: list[Json], task_id: str) -> Json | None:
    wanted = task_id.strip()
    return next((task for task in tasks if isinstance(task, dict) and _id(task) == wanted), None)


def _id(task: Json) -> str:
    return str(task.get("id", "")).strip()


def _append_new(tasks: list[Json], more: list[Json]) -> bool:
    """Add those whose ids are not there; whether there were any."""
    known = {_id(task) for task in tasks if isinstance(task, dict)}
    new = [task for task in more if _id(task) not in known]
    tasks.extend(new)
    return bool(new)


def _is_settled(task: object) -> bool:
    return isinstance(task, dict) and task.get("status") in SETTLED


def _is_same(task: Json, done: Json | None) -> bool:
    """Whether a task of the queue is the one that was completed already. One that a person opened again is another matter."""
    if done is None or task.get("status", "todo") not in ("doing", "done"):
        return False
    return all(task.get(key) == done.get(key) for key in ("title", "created_at"))


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

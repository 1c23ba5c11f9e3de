"""One file of tasks that others write too: read, and changed by exchange with a look at what came out.

Another writer's bytes go back and our one change is made again on top of them. A daemon that died between the exchange and the look
has left what came out beside the file; the next one that changes the file finds it, and puts tasks that are nowhere else back.
Comments do not survive a rewrite, values do.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from cueloop_daemon.runs.types import TaskConflict, TasksUnreadable
from cueloop_daemon.store.atomic import Author, discard, parse_temp, temp_paths, write_temp
from cueloop_daemon.store.etag import etag_of_bytes
from cueloop_daemon.store.exchange import place_new, put_back, swap
from cueloop_daemon.store.jsonc import JsoncError, read_json
from cueloop_daemon.store.not_writable import not_writable
from cueloop_daemon.store.outcomes import OwnershipLost
from cueloop_daemon.store.system import System
from cueloop_daemon.workspace.files import read_regular
from cueloop_protocol.identity import process_start_time
from cueloop_protocol.roots import shown

ATTEMPTS = 20
"""How often our change is made again on top of somebody else's before it is given up."""

Json = dict[str, Any]
Change = Callable[[list[Json]], bool]
"""Changes the tasks in place; False: there is nothing to change."""


class TasksFile:
    """A queue or done file. `path` is for system calls, a link is followed. Blocking; one call at a time.

    Raises NotWritable, TasksUnreadable, and from `change` TaskConflict, and OwnershipLost where this daemon no longer owns the
    repository.
    """

    def __init__(self, path: str, system: System, author: Author, still_ours: Callable[[], bool]) -> None:
        self._path = path
        self._system = system
        self._author = author
        self._still_ours = still_ours

    def tasks(self) -> list[Json]:
        """Everything in `tasks` that is an object; nothing where there is no file."""
        try:
            data, _ = read_regular(self._path)
        except OSError as exc:
            raise not_writable(exc, shown(self._path), "read") from exc
        return [] if data is None else [task for task in self._document(data)["tasks"] if isinstance(task, dict)]

    def change(self, change: Change) -> bool:
        """Make one change on top of what stands there; False if there was nothing to change."""
        if not self._still_ours():
            raise OwnershipLost(shown(self._path))
        target = self._target()
        try:
            for attempt in range(ATTEMPTS):
                if attempt:
                    time.sleep(min(0.001 * 2**attempt, 0.1))  # in a worker thread; the other writer gets a chance to end
                before, _ = read_regular(target)
                document: Json = {"version": 1, "tasks": []} if before is None else self._document(before)
                if not change(document["tasks"]):
                    return False
                if self._replace(target, before, _printed(document)):
                    return True
        except OSError as exc:
            raise not_writable(exc, shown(self._path)) from exc
        raise TaskConflict(
            f"{shown(self._path)} was changed by somebody else {ATTEMPTS} times in a row; nothing of theirs was lost."
        )

    def left_behind(self) -> Iterator[tuple[str, list[Json]]]:
        """What dead daemons took out of this file and did not look at any more: (path, its tasks). Other leftovers are removed."""
        folder, name = os.path.split(self._target())
        for entry in _names(self._system, folder):
            temp = parse_temp(entry)
            if temp is None or temp.target != name or temp.is_alive(process_start_time):
                continue
            path = f"{folder}/{entry}"
            with suppress(OSError, TasksUnreadable):  # it stays there, whole
                if temp.inode is None or self._system.lstat(path).st_ino == temp.inode:
                    self._system.unlink(path)
                else:
                    data, _ = read_regular(path)
                    yield path, self._document(data or b"{}")["tasks"]

    def drop(self, path: str) -> None:
        """What was left behind there is taken care of."""
        discard(self._system, path)

    def _target(self) -> str:
        return os.path.realpath(self._path) if os.path.islink(self._path) else self._path

    def _replace(self, target: str, before: bytes | None, data: bytes) -> bool:
        """Put `data` where exactly `before` stands; False, and everything as it was, if something else stands there."""
        mode = 0o644 if before is None else stat.S_IMODE(os.stat(target).st_mode)
        temp = self._armed(write_temp(self._system, target, data, self._author, mode), target)
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

    def _armed(self, temp: str, target: str) -> str:
        """Its inode goes into its name: a file of another inode under that name is one that came out."""
        try:
            ending = f"-{self._system.lstat(temp).st_ino}.swap"
            return next(name for name in temp_paths(target, self._author, ending) if place_new(self._system, temp, name))
        except BaseException:
            discard(self._system, temp)
            raise

    def _replace_by_looking(self, temp: str, target: str, before: bytes) -> bool:
        """Where files cannot be exchanged: look, then replace."""
        if read_regular(target)[0] != before:
            return False
        self._system.replace(temp, target)
        return True

    def _document(self, data: bytes) -> Json:
        where = shown(self._path)
        try:
            document = read_json(data)
        except JsoncError as exc:
            raise TasksUnreadable(f"{where} cannot be read (line {exc.line}: {exc.reason}), so it is not changed.") from exc
        if not isinstance(document, dict) or not isinstance(document.get("tasks"), list):
            raise TasksUnreadable(f"{where} is no queue file, so it is not changed.")
        return document


def _printed(document: Json) -> bytes:
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()


def _names(system: System, folder: str) -> list[str]:
    try:
        return system.listdir(folder)
    except OSError:
        return []

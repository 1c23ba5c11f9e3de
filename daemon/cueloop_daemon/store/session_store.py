"""The session file as this daemon writes it: bytes in, bytes out. Standard library only.

Others write the file too. Every method looks at what it replaces or removes *after* taking it away, so that a write that came
in between is noticed; bytes that are not ours are put back or kept in the history, and the result says which. The methods block;
call them in a worker thread, one at a time.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from cueloop_daemon.store.atomic import Author, parse_temp, sweep
from cueloop_daemon.store.etag import etag_of_bytes
from cueloop_daemon.store.exchange import Sight, look
from cueloop_daemon.store.folder import CACHE, OURS, ensure_cache, shown_path
from cueloop_daemon.store.history import FOLDER as HISTORY
from cueloop_daemon.store.history import History, HistoryEntry, Note
from cueloop_daemon.store.not_writable import not_writable
from cueloop_daemon.store.outcomes import (
    Conflict,
    Missing,
    OwnershipLost,
    Quarantined,
    QuarantineResult,
    Removed,
    RemoveResult,
    SaveResult,
    refuse,
)
from cueloop_daemon.store.quarantine import move_to_quarantine
from cueloop_daemon.store.saving import Order, Place, Saving
from cueloop_daemon.store.system import System
from cueloop_protocol.roots import Root
from cueloop_protocol.values import dataclass

NAME = "session.jsonc"
SESSION = (*CACHE, NAME)


@dataclass(frozen=True, slots=True)
class _Taken:
    number: int
    seen: Sight


class SessionStore:
    """The one writer of `.cueloop/cache/session.jsonc`.

    `clock` gives the present time with an offset; `still_ours` says whether both ownership locks are still this process's, and is
    asked before each change. Every method raises `NotWritable` (with `SessionRefused`, `OwnershipLost`, `FolderMissing` and
    `FolderRefused` below it) and nothing else. The file is then what it was before, unless the disk failed at the very end of a
    save: then it is the new one, whole, and the next save knows it as ours.
    """

    def __init__(
        self,
        root: Root,
        *,
        system: System,
        clock: Callable[[], datetime],
        history: History,
        author: Author,
        uid: int,
        still_ours: Callable[[], bool],
    ) -> None:
        self.path = root.join(*SESSION)
        self.shown = shown_path(root, *SESSION)
        self._root = root
        self._system = system
        self._clock = clock
        self._history = history
        self._place = Place(self.path, self.shown, system, history, author, self._note)
        self._uid = uid
        self._still_ours = still_ours
        self._unacknowledged: str | None = None

    def save(self, data: bytes, expected: str | None, *, during_run: bool, keep_as: str | None = None) -> SaveResult:
        """Make `data` the session, where `expected` is the etag of what we wrote last (None: there is no session).

        With another state found, ours stands during a run (`SavedOver`), theirs without one (`Conflict`). `keep_as` is the reason
        under which the expected bytes are kept in the history; None drops them as an older state of the same session.
        """
        with self._changing("write"):
            order = Order(data, self._ours(expected), during_run, keep_as)
            self._unacknowledged = etag_of_bytes(data)
            result = Saving(self._place, order).run()
            self._unacknowledged = None
            return result

    def remove(self, expected: str, *, why: str, during_run: bool) -> RemoveResult:
        """Move the session to the history. Another one than `expected` stays, but during a run it goes, too (`foreign`)."""
        with self._changing("remove"):
            taken = self._take(expected, why, during_run)
            if not isinstance(taken, _Taken):
                return taken
            foreign = taken.seen.etag not in self._ours(expected)
            with self._or_give_back(taken.number):
                entry = self._history.settle(taken.number, self._note("foreign" if foreign else why, taken.seen))
            self._unacknowledged = None
            return Removed(entry, foreign)

    def clear(self, etag: str) -> RemoveResult:
        """Move the session that `etag` names to the history, whatever is in it, as a person asked; never an unreadable one."""
        return self.remove(etag, why="cleared", during_run=False)

    def quarantine(self, expected: str) -> QuarantineResult:
        """Move the corrupt session that `expected` names to the quarantine, byte for byte. Another one stays in place."""
        with self._changing("move"):
            taken = self._take(expected, "quarantine", during_run=False)
            if not isinstance(taken, _Taken):
                return taken
            source = self._history.bytes_path(taken.number)
            with self._or_give_back(taken.number):
                path = move_to_quarantine(self._system, self._root, self._uid, source, self._clock())
            self._history.forget(taken.number)
            return Quarantined(path)

    def recover(self, start_time_of: Callable[[int], str | None]) -> tuple[HistoryEntry, ...]:
        """At start: sweep our own dead leftovers, finish what a crash interrupted. Gives the entries of bytes it had to keep.

        Other programs' temporary files are not touched. `start_time_of` is `cueloop_protocol.identity.process_start_time`.
        """
        with self._changing("sweep"):
            cache = self._root.join(*CACHE)
            for folder in (cache, self._root.join(*OURS), self._root.join(*HISTORY)):
                sweep(self._system, folder, start_time_of)
            kept = [self._rescue(f"{cache}/{name}") for name in self._left_behind(cache, start_time_of)]
            return (*kept, *self._history.recover(self.path, self._clock()))

    def _take(self, expected: str, why: str, during_run: bool) -> _Taken | Missing | Conflict:
        """The session is in the history, in doubt, and is the expected one, or another during a run; or it is where it was."""
        there = look(self._system, self.path)
        if there is None:
            return Missing()
        refuse(there, self.shown)
        if not during_run and there.etag not in self._ours(expected):
            return Conflict(there.etag)
        try:
            number = self._history.begin(self.path, Note(self._clock(), why, there.etag, task_id_in(there.data)))
        except FileNotFoundError:
            return Missing()
        with self._or_give_back(number):
            seen = look(self._system, self._history.bytes_path(number))
            if seen is not None and seen.kind == "file" and (during_run or seen.etag in self._ours(expected)):
                self._system.fsync_folder(os.path.dirname(self.path))
                return _Taken(number, seen)
        return self._give_back(number, seen)

    def _give_back(self, number: int, seen: Sight | None) -> Missing | Conflict:
        if seen is None:
            return Missing()
        if self._history.give_back(number, self.path):
            refuse(seen, self.shown)
            return Conflict(seen.etag)
        entry = self._history.settle(number, self._note("foreign", seen))
        there = look(self._system, self.path)
        return Conflict(there.etag if there else None, (entry,))

    def _left_behind(self, cache: str, start_time_of: Callable[[int], str | None]) -> Iterator[str]:
        for name in self._system.listdir(cache):
            temp = parse_temp(name)
            if temp is not None and temp.target == NAME and temp.inode is not None and not temp.is_alive(start_time_of):
                yield name

    def _rescue(self, path: str) -> HistoryEntry:
        seen = look(self._system, path)
        note = Note(self._clock(), "left_behind", seen.etag if seen else "", task_id_in(seen.data if seen else None))
        entry = self._history.take(path, note)
        self._system.fsync_folder(os.path.dirname(path))
        return entry

    def _ours(self, expected: str | None) -> frozenset[str]:
        return frozenset(etag for etag in (expected, self._unacknowledged) if etag is not None)

    def _note(self, why: str, seen: Sight) -> Note:
        return Note(self._clock(), why, seen.etag, task_id_in(seen.data))

    @contextlib.contextmanager
    def _or_give_back(self, number: int) -> Iterator[None]:
        try:
            yield
        except BaseException:
            with contextlib.suppress(OSError):
                self._history.give_back(number, self.path)
            raise

    @contextlib.contextmanager
    def _changing(self, action: str) -> Iterator[None]:
        if not self._still_ours():
            raise OwnershipLost(self.shown)
        ensure_cache(self._root, self._system)
        try:
            yield
        except OSError as exc:
            raise not_writable(exc, self.shown, action) from exc


def task_id_in(data: bytes | None) -> str | None:
    """The task that a session names, for the note beside it; None where that cannot be told from strict JSON."""
    try:
        document: Any = json.loads(data or b"")
    except (ValueError, RecursionError):
        return None
    task_id = document.get("task_id") if isinstance(document, dict) else None
    return task_id.strip() if isinstance(task_id, str) else None

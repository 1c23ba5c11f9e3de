"""One save of the session file: look, exchange, look again. Standard library only."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable

from cueloop_daemon.store.atomic import Author, discard, temp_paths, write_temp
from cueloop_daemon.store.etag import etag_of_bytes
from cueloop_daemon.store.exchange import ATTEMPTS, Held, Sight, hold, look, place_new, put_back, swap
from cueloop_daemon.store.history import History, HistoryEntry, Note
from cueloop_daemon.store.not_writable import NotWritable
from cueloop_daemon.store.outcomes import Conflict, Saved, SavedOver, SaveResult, refuse
from cueloop_daemon.store.system import System
from cueloop_protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be saved over what. `ours` are the etags of what we wrote last; without any, no file is expected."""

    data: bytes
    ours: frozenset[str]
    during_run: bool
    keep_as: str | None
    """Why the replaced bytes go to the history; None: they are only an older state of the same session."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a session is saved, and what that takes; `note` words why bytes go to the history."""

    path: str
    shown: str
    system: System
    history: History
    author: Author
    note: Callable[[str, Sight], Note]


class Saving:
    """One save under way. Whatever happens, what others wrote exists somewhere, and no temporary file of ours is left."""

    def __init__(self, place: Place, order: Order) -> None:
        self._path = place.path
        self._shown = place.shown
        self._system = place.system
        self._history = place.history
        self._author = place.author
        self._note = place.note
        self._order = order
        self._etag = etag_of_bytes(order.data)
        self._aside = ""
        self._inode = 0

    def run(self) -> SaveResult:
        """Raises `OSError` or `NotWritable`; then the file is as it was, or ours is in place but perhaps not on the medium."""
        there = look(self._system, self._path)
        refuse(there, self._shown)
        mode = 0o600 if there is None else there.mode & 0o600
        temp = write_temp(self._system, self._path, self._order.data, self._author, mode)
        self._arm(temp)
        try:
            return self._publish()
        finally:
            self._tidy()

    def _arm(self, temp: str) -> None:
        """Write the inode into the name: a file of another inode under it is one that came out, and must not be swept."""
        try:
            self._inode = self._system.lstat(temp).st_ino
            names = temp_paths(self._path, self._author, f"-{self._inode}.swap")
            self._aside = next(name for name in names if place_new(self._system, temp, name))
        except BaseException:
            discard(self._system, temp)
            raise

    def _publish(self) -> SaveResult:
        for _ in range(ATTEMPTS):
            there = look(self._system, self._path)
            refuse(there, self._shown)
            if self._must_yield(there):
                return Conflict(there.etag if there else None)
            result = self._place() if there is None else self._replace()
            if result is not None:
                return result
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), self._path)

    def _must_yield(self, there: Sight | None) -> bool:
        """Without a run, what somebody else made of the file stands, also that it is gone."""
        if self._order.during_run:
            return False
        return bool(self._order.ours) if there is None else there.etag not in self._order.ours

    def _place(self) -> SaveResult | None:
        if not place_new(self._system, self._aside, self._path):
            return None
        self._durable()
        return SavedOver(self._etag, (), deleted=True) if self._order.ours else Saved(self._etag)

    def _replace(self) -> SaveResult | None:
        try:
            swapped = swap(self._system, self._aside, self._path)
        except FileNotFoundError:
            return None
        return self._judge_what_came_out() if swapped else self._replace_without_exchange()

    def _judge_what_came_out(self) -> SaveResult:
        try:
            with hold(self._system, self._aside) as held:
                out = held.look() if isinstance(held, Held) else held
                if isinstance(held, Held) and out is not None and out.etag in self._order.ours:
                    return self._drop(held, out)
                if self._order.during_run and out is not None and out.kind == "file":
                    entry = self._history.take(self._aside, self._note("foreign", out))
                    self._durable()
                    return SavedOver(self._etag, (entry,))
        except BaseException:
            self._undo()
            raise
        self._undo()
        refuse(look(self._system, self._path), self._shown)
        return self._conflict()

    def _drop(self, held: Held, out: Sight) -> SaveResult:
        """The expected bytes came out. Somebody may have had that file open: what they wrote into it since is kept, too."""
        kept = None
        if self._order.keep_as is None:
            self._system.unlink(self._aside)
        else:
            kept = self._history.take(self._aside, self._note(self._order.keep_as, out))
        self._durable()
        return self._look_again(held, out, kept)

    def _look_again(self, held: Held, out: Sight, kept: HistoryEntry | None) -> SaveResult:
        late = held.look()
        if late.etag == out.etag:
            return Saved(self._etag, kept)
        return SavedOver(self._etag, (self._history.copy(held, self._note("foreign", late)),))

    def _replace_without_exchange(self) -> SaveResult | None:
        with hold(self._system, self._path) as held:
            if not isinstance(held, Held):
                return None
            out = held.look()
            if self._must_yield(out):
                return None
            foreign = out.etag not in self._order.ours
            why = "foreign" if foreign else self._order.keep_as
            entry = None if why is None else self._history.copy(held, self._note(why, out))
            if self._moved_on(out):
                if entry is not None:
                    self._history.withdraw(entry)
                return None
            self._system.replace(self._aside, self._path)
            self._durable()
            result = self._look_again(held, out, None if foreign else entry)
        if foreign and entry is not None:
            return SavedOver(self._etag, (entry, *(result.foreign if isinstance(result, SavedOver) else ())))
        return result

    def _moved_on(self, out: Sight) -> bool:
        """The last look before a replacement that cannot be taken back: whether another file stands there by now."""
        try:
            return self._system.lstat(self._path).st_ino != out.inode
        except FileNotFoundError:
            return True

    def _undo(self) -> None:
        """Give the path back to what came out, or to what is newer still."""
        put_back(self._system, self._aside, self._path, self._etag)
        self._durable()

    def _conflict(self) -> Conflict:
        left = look(self._system, self._aside)
        kept = () if left is None or self._is_ours(left) else (self._history.take(self._aside, self._note("foreign", left)),)
        there = look(self._system, self._path)
        return Conflict(None if there is None else there.etag, kept)

    def _durable(self) -> None:
        self._system.fsync_folder(os.path.dirname(self._path))

    def _is_ours(self, seen: Sight) -> bool:
        return seen.inode == self._inode and seen.etag == self._etag

    def _tidy(self) -> None:
        """Remove what is still aside if it is ours, else keep it. What cannot be done now, the next start's `recover` does."""
        for _ in range(2):
            with contextlib.suppress(OSError, NotWritable):
                left = look(self._system, self._aside)
                if left is not None and self._is_ours(left):
                    self._system.unlink(self._aside)
                elif left is not None:
                    self._history.take(self._aside, self._note("foreign", left))
                return

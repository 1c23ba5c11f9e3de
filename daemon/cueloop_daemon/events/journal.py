"""The log as the hub sees it: asynchronous, one lane for all access to the file, and memory while the file is out of use.

What happens when the log cannot be written (no space, no access, locked): the group is kept and tried again for about a second.
Then the events live in memory, in a new epoch: subscribers are told so by one gap each, and go on being served; a cursor of that
epoch does not survive a restart. The file is tried again at most every 30 seconds, when there is something to write, and taken
back with another new epoch. A damaged file is moved aside, and a new one is begun in a new epoch, at once. Numbers never go back.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

import anyio
from anyio import CapacityLimiter, to_thread

from cueloop_daemon.events.log import EventLog
from cueloop_daemon.events.marks import Marks
from cueloop_daemon.events.model import Announced, Chunk, Filter, Group, Mark, Place
from cueloop_daemon.events.opening import Before, open_log
from cueloop_daemon.events.output import join_output
from cueloop_daemon.events.recent import Recent
from cueloop_daemon.events.revisions import Revisions
from cueloop_daemon.events.sqlite import mark_over
from cueloop_daemon.store.sqlite import DbDamaged, DbError, DbUnwritable
from cueloop_protocol.cursor import Cursor
from cueloop_protocol.values import dataclass

_logger = logging.getLogger(__name__)
T = TypeVar("T")

RECENT_BYTES = 256 * 1024
MEMORY_BYTES = 4 * 1024 * 1024
"""How much is kept in memory: beside the file, and instead of it."""

PAUSES = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4)
"""Seconds between attempts to write a group."""

RETURN_AFTER = 30.0
"""Seconds before the file is tried again."""

KEPT_AUDIENCES = 64
"""Audiences whose last announcement is remembered; the one not announced to for the longest goes."""


@dataclass(frozen=True, slots=True)
class Health:
    """How the log is. `reason` is None while everything is kept; `notice` says what happened to it since the start."""

    bytes: int
    reason: str | None
    notice: str | None


class Journal:
    """Commits groups and reads them back. `monotonic` gives seconds. Call `open` first; all from one event loop."""

    def __init__(self, place: Place, monotonic: Callable[[], float]) -> None:
        self._place = place
        self._monotonic = monotonic
        self._log: EventLog | None = None
        self._recent = Recent(RECENT_BYTES)
        self._announced: dict[str, bytes] = {}
        self._marks = Marks()
        self._carried: list[Announced] = []
        self._carried_marks: tuple[Mark, ...] = ()
        self._reason: str | None = None
        self._notice: str | None = None
        self._left_at = 0.0
        self._since: float | None = None
        self._lane = CapacityLimiter(1)
        self._reader = CapacityLimiter(1)
        self.revisions = Revisions(0)
        self.epoch = ""
        self.base = 0
        """The seq before the first of this epoch."""
        self.end = 0
        """The seq of the last committed event."""

    @property
    def cursor(self) -> Cursor:
        """The end of what is committed."""
        return Cursor(self.epoch, self.end)

    @property
    def first(self) -> int:
        """The seq of the first event that can still be told: kept, and of this epoch. Beyond `end` where there is none."""
        oldest = self._recent.oldest if self._log is None else self._log.oldest
        return self.end + 1 if oldest is None else max(oldest, self.base + 1)

    @property
    def announced(self) -> Mapping[str, bytes]:
        """What was announced last, by audience, as far as it is committed."""
        return MappingProxyType(self._announced)

    @property
    def marks(self) -> Mapping[tuple[str, str], int]:
        """How far each source of each run was told, as far as it is committed."""
        return {(run_id, source): position for run_id, source, position in self._marks}

    @property
    def health(self) -> Health:
        """For `daemon.status`."""
        return Health(self._log.bytes if self._log else self._recent.bytes, self._reason, self._notice)

    @property
    def stuck_for(self) -> float:
        """Seconds since which a call has been waiting for the disk; 0 if none does."""
        since = self._since
        return 0.0 if since is None else max(0.0, self._monotonic() - since)

    async def open(self) -> None:
        """Open the file, or begin in memory. Never raises for the file's sake."""
        try:
            log = await self._in_lane(lambda: open_log(self._place))
        except DbError as exc:
            self._serve_from_memory(exc)
        else:
            self._adopt(log)
            self.revisions = Revisions(log.opened.revision)
            self._announced = dict(log.opened.announced)
            self._marks = Marks(log.opened.marks)
            self.end = log.last_seq

    async def commit(self, group: Group, is_pressed: Callable[[], bool]) -> None:
        """Return when the group is kept: on disk, or in memory if there is no disk (`epoch` is another one then).

        While `is_pressed()`, no time is spent on waiting for a full disk. If cancelled, nothing of the group was kept.
        """
        if self._log is None and self._monotonic() - self._left_at >= RETURN_AFTER:
            await self._return_to_disk()
        await self._commit_to_disk(group, is_pressed)
        self._remember(group)

    async def read(self, after: int, wanted: Filter) -> Chunk | None:
        """The next rows after `after` and not beyond `end`, for one who lags; None if they cannot be told any more."""
        rows = self._recent.after(after)
        if rows is not None:
            return Chunk(tuple(row for row in rows if wanted.wants(row)), rows[-1].seq if rows else after)
        if self._log is None or after < self._log.oldest - 1:
            return None
        async with self._reader:  # at most one read stands before a commit
            if (log := self._log) is None or after < self.base:
                return None  # the epoch may have changed while we waited; rows of an older one stand below `base`
            return await self._in_lane(lambda: _read(log, after, self.end, wanted))

    def set_limit(self, limit: int) -> None:
        """Bytes that the file may use from now on; a smaller one is reached with the next commits."""
        self._place = replace(self._place, limit=limit)
        if self._log is not None:
            self._log.limit = limit

    async def close(self) -> None:
        """The clean end; a restart goes on in this epoch. Never raises for the file's sake."""
        if (log := self._log) is not None:
            self._log = None
            await to_thread.run_sync(log.close, self.revisions.current, limiter=self._lane, abandon_on_cancel=True)

    async def _commit_to_disk(self, group: Group, is_pressed: Callable[[], bool]) -> None:
        was_replaced = False
        while (log := self._log) is not None:
            whole = replace(group, announced=(*self._carried, *group.announced), marks=(*self._carried_marks, *group.marks))
            try:
                await self._append(log, whole, is_pressed)
            except DbUnwritable as exc:
                self._serve_from_memory(exc)
                await self._in_lane(log.abandon)
            except DbDamaged as exc:
                await self._replace_damaged(log, exc, is_last_try=was_replaced)
                was_replaced = True
            else:
                self._carried.clear()
                self._carried_marks = ()
                return

    async def _append(self, log: EventLog, group: Group, is_pressed: Callable[[], bool]) -> None:
        for pause in PAUSES:
            try:
                await self._in_lane(lambda: log.append(group))
            except DbUnwritable:
                if is_pressed():
                    raise
            else:
                return
            await anyio.sleep(pause)
        await self._in_lane(lambda: log.append(group))

    async def _replace_damaged(self, log: EventLog, why: DbDamaged, is_last_try: bool) -> None:
        """Move the file aside, whatever lies there now, and begin a new one."""
        self._log = None
        try:
            moved_to = await self._in_lane(log.set_aside)
            if is_last_try:
                raise DbUnwritable(str(why))
            new = await self._in_lane(lambda: open_log(self._place, Before(self.end, self.revisions.current)))
        except DbError as exc:
            self._serve_from_memory(exc)
        else:
            self._adopt(new)
            self._note(f"the event log was unusable ({why}); a new one was begun", moved_to)

    async def _return_to_disk(self) -> None:
        try:
            log = await self._in_lane(lambda: open_log(self._place, Before(self.end, self.revisions.current)))
        except DbError as exc:
            self._left_at = self._monotonic()
            self._reason = _reason(exc)
        else:
            self._adopt(log)
            self._note("the event log is in use again, in a new epoch", None)

    def _adopt(self, log: EventLog) -> None:
        self._log = log
        self._reason = None
        self._begin_epoch(log.opened.epoch, log.opened.base, RECENT_BYTES)
        if log.opened.moved_to is not None:
            self._note("the event log was damaged; a new one was begun", log.opened.moved_to)

    def _serve_from_memory(self, why: DbError) -> None:
        """From here on the file's epoch is over, although nobody may be able to write that into it: see `mark_over`."""
        self._log = None
        self._left_at = self._monotonic()
        self._reason = _reason(why)
        mark_over(self._place.path)
        self._begin_epoch(self._place.new_epoch(), self.end, MEMORY_BYTES)
        _logger.error("event log out of use path=%s reason=%s", self._place.path, why)

    def _begin_epoch(self, epoch: str, base: int, recent_bytes: int) -> None:
        self.epoch = epoch
        self.base = base
        self._recent.limit = recent_bytes
        self._recent.clear()
        self._carried = [Announced(audience, state) for audience, state in self._announced.items()]
        self._carried_marks = tuple(self._marks)

    def _remember(self, group: Group) -> None:
        if group.rows:
            self._recent.extend(group.rows)
            self.end = group.rows[-1].seq
        self._marks.take(group.marks)
        self._marks.forget(group.forgotten)
        for audience, state in group.announced:
            self._announced.pop(audience, None)
            if state is not None:
                self._announced[audience] = state
        while len(self._announced) > KEPT_AUDIENCES:
            forgotten = next(iter(self._announced))
            del self._announced[forgotten]
            self._carried.append(Announced(forgotten, None))

    def _note(self, text: str, moved_to: str | None) -> None:
        self._notice = text if moved_to is None else f"{text}; the old one is {os.path.basename(moved_to)}"
        _logger.warning("event log changed path=%s epoch=%s notice=%s", self._place.path, self.epoch, self._notice)

    async def _in_lane(self, call: Callable[[], T]) -> T:
        """Alone with the file, in a worker thread. Once begun it is waited for, even if cancelled: no commit is half known."""

        def timed() -> T:
            self._since = self._monotonic()
            try:
                return call()
            finally:
                self._since = None

        return await to_thread.run_sync(timed, limiter=self._lane)


def _read(log: EventLog, after: int, upto: int, wanted: Filter) -> Chunk | None:
    try:
        chunk = log.read(after, upto, wanted)
    except DbError as exc:
        _logger.warning("event log cannot be read after=%d reason=%s", after, exc)
        return None
    return chunk and replace(chunk, rows=join_output(chunk.rows))


def _reason(why: DbError) -> str:
    return (
        f"The event log events.db cannot be used: {why}. Events are kept in memory only, and a restart costs each subscriber "
        f"a gap; the file is tried again with the next event after {RETURN_AFTER:.0f} seconds."
    )

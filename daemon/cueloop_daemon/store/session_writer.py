"""The session file while a run is active: ours stands, what others wrote meanwhile is kept and told. One lane."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from datetime import datetime

import anyio
import anyio.to_thread

from cueloop_daemon.core.stamps import format_stamp, parse_stamp
from cueloop_daemon.runs.types import SessionWrite
from cueloop_daemon.store.etag import etag_of_bytes
from cueloop_daemon.store.exchange import look
from cueloop_daemon.store.not_writable import NotWritable, not_writable
from cueloop_daemon.store.outcomes import Conflict, Missing, Removed, Saved, SavedOver
from cueloop_daemon.store.session_store import SessionStore
from cueloop_daemon.store.system import System
from cueloop_protocol.documents.session import Session, session_json

ATTEMPTS = 3

TO_HISTORY = ("REPLACE", "TO_HISTORY")
"""The FileActions after which the old file is found in the history. `KEEP`: it is an older state of the same session."""


class RunSessionWriter:
    """Writes the session of one run. Every method raises NotWritable, and then the file is as it was, or ours as a whole.

    `known` are the etags of what earlier lives wrote, or were about to write, oldest first. `remember(etag)` is called, in the
    worker thread, before bytes with this etag are written (None: before the file is removed), and returns when it is on the medium.
    """

    def __init__(
        self,
        store: SessionStore,
        system: System,
        now: Callable[[], datetime],
        known: tuple[str, ...],
        remember: Callable[[str | None], None],
    ) -> None:
        self._store = store
        self._system = system
        self._now = now
        self._known = known
        self._etag: str | None = None
        self._is_settled = False
        self._remember = remember
        self._lane = anyio.Lock()

    async def begin(self, session: Session, action: str, *, seen: str | None, reason: str) -> SessionWrite:
        """The new session, after `action` was done to the old file; see `types.SessionWriter`."""
        async with self._lane:
            return await anyio.to_thread.run_sync(self._begin, session, action, seen, reason)

    async def save(self, session: Session) -> SessionWrite:
        """The session as it stands now; `last_updated_at` is set here, never before the run's start."""
        async with self._lane:
            return await anyio.to_thread.run_sync(self._save, session, None)

    async def clear(self, why: str, etag: str | None = None) -> SessionWrite | None:
        """Move it to the history; None if there was none. A foreign one stays and is told."""
        async with self._lane:
            return await anyio.to_thread.run_sync(self._clear, why, etag)

    def _begin(self, session: Session, action: str, seen: str | None, reason: str) -> SessionWrite:
        current = self._current()
        if current != seen and current in self._known:
            self._expect(current)  # an earlier life had written it already
            return self._save(session, None)
        self._expect(seen)
        if action == "QUARANTINE" and seen is not None:
            moved = self._store.quarantine(seen)
            if not isinstance(moved, Conflict):
                self._expect(None)
        return self._save(session, reason if action in TO_HISTORY else None)

    def _save(self, session: Session, keep_as: str | None) -> SessionWrite:
        expected = self._expected()
        data = session_json(session.model_copy(update={"last_updated_at": self._stamp(session)}))
        etag = etag_of_bytes(data)
        self._remember(etag)
        try:
            result = self._put(data, expected, keep_as)
        except NotWritable:
            if expected is not None:
                self._remember(expected)  # so that the next attempt does not push it out of what is remembered
            raise
        self._expect(etag)
        if isinstance(result, Saved):
            return SessionWrite(etag)
        return SessionWrite(etag, tuple(entry.path for entry in result.foreign), result.deleted)

    def _put(self, data: bytes, expected: str | None, keep_as: str | None) -> Saved | SavedOver:
        for _ in range(ATTEMPTS):
            result = self._store.save(data, expected, during_run=True, keep_as=keep_as)
            if not isinstance(result, Conflict):
                return result
        # Something that is no plain file came and went under our hands each time.
        raise not_writable(OSError(errno.EBUSY, os.strerror(errno.EBUSY)), self._store.shown)

    def _clear(self, why: str, etag: str | None) -> SessionWrite | None:
        expected = etag or self._expected()
        if expected is None:
            return None
        result = self._store.remove(expected, why=why, during_run=False)
        self._expect(None)
        self._remember(None)
        match result:
            case Removed():
                return SessionWrite(expected)
            case Missing():
                return None
            case Conflict():
                return SessionWrite("", tuple(entry.path for entry in result.kept), stays=result.found is not None)

    def _expected(self) -> str | None:
        """What stands there if nobody else wrote: in a new life, whichever of the last two writes came so far."""
        if not self._is_settled:
            current = self._current()
            self._expect(current if current in self._known else self._known[-1] if self._known else None)
        return self._etag

    def _expect(self, etag: str | None) -> None:
        self._etag, self._is_settled = etag, True

    def _current(self) -> str | None:
        seen = look(self._system, self._store.path)
        return None if seen is None else seen.etag

    def _stamp(self, session: Session) -> str:
        """Now; but a clock that was set back never makes a session older than its own start."""
        now, start = self._now(), parse_stamp(session.run_started_at)
        return format_stamp(now if start is None or now >= start else start)

"""The session file while a run is active: ours stands, what others wrote meanwhile is kept and told. One lane."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import anyio
import anyio.to_thread
from cueloop_protocol.documents.session import Session, session_json

from cueloop_daemon.core.stamps import format_stamp, parse_stamp
from cueloop_daemon.runs.types import SessionWrite
from cueloop_daemon.store.etag import etag_of_bytes
from cueloop_daemon.store.outcomes import Conflict, Missing, Quarantined, Removed, Saved, SavedOver
from cueloop_daemon.store.session_file import read_session
from cueloop_daemon.store.session_store import SessionStore

REASONS = {"REPLACE": "explicit_task_selection_overrides_session", "TO_HISTORY": "replaced", "KEEP": None, "NOTHING": None}
"""FileAction → why the replaced bytes go to the history; None: they are an older state of the same session, or there are none."""


class RunSessionWriter:
    """Writes the session of one run. `known` are the etags of what earlier lives of the run wrote, or were about to write.

    `remember(etag)` is called, in the worker thread, before bytes with this etag are written, and returns when it is on the medium.
    """

    def __init__(
        self, store: SessionStore, now: Callable[[], datetime], known: str | None, remember: Callable[[str | None], None]
    ) -> None:
        self._store = store
        self._now = now
        self._etag = known
        self._remember = remember
        self._lane = anyio.Lock()

    async def begin(self, session: Session, action: str) -> SessionWrite:
        """The new session, after `action` (a FileAction's name) was done to the old file. Raises NotWritable."""
        async with self._lane:
            return await anyio.to_thread.run_sync(self._begin, session, action)

    async def save(self, session: Session) -> SessionWrite:
        """The session as it stands now; `last_updated_at` is set here, never before the run's start. Raises NotWritable."""
        async with self._lane:
            return await anyio.to_thread.run_sync(self._save, session, None)

    async def clear(self, why: str, etag: str | None = None) -> SessionWrite | None:
        """Move it to the history; None if there was none. A foreign one stays and is told. Raises NotWritable."""
        async with self._lane:
            return await anyio.to_thread.run_sync(self._clear, why, etag)

    def _begin(self, session: Session, action: str) -> SessionWrite:
        current = getattr(read_session(self._store.path), "etag", None)
        if self._etag is None or current != self._etag:
            if action == "QUARANTINE" and current is not None:
                moved = self._store.quarantine(current)
                current = None if isinstance(moved, Quarantined | Missing) else moved.found
            self._etag = current
        return self._save(session, REASONS.get(action))

    def _save(self, session: Session, keep_as: str | None) -> SessionWrite:
        data = session_json(session.model_copy(update={"last_updated_at": self._stamp(session)}))
        etag = etag_of_bytes(data)
        self._remember(etag)
        result = self._store.save(data, self._etag, during_run=True, keep_as=keep_as)
        self._etag = etag
        match result:
            case Saved():
                return SessionWrite(etag)
            case SavedOver():
                return SessionWrite(etag, tuple(entry.path for entry in result.foreign), result.deleted)
            case Conflict():
                return SessionWrite(etag, tuple(entry.path for entry in result.kept))

    def _clear(self, why: str, etag: str | None) -> SessionWrite | None:
        expected = etag or self._etag
        if expected is None:
            return None
        result = self._store.remove(expected, why=why, during_run=False)
        self._etag = None
        self._remember(None)
        match result:
            case Removed():
                return SessionWrite(expected)
            case Missing():
                return None
            case Conflict():
                return SessionWrite("", tuple(entry.path for entry in result.kept))

    def _stamp(self, session: Session) -> str:
        """Now; but a clock that was set back never makes a session older than its own start."""
        now, start = self._now(), parse_stamp(session.run_started_at)
        return format_stamp(now if start is None or now >= start else start)

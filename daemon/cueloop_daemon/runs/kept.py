"""What outlives a run in `runs.db`: work that was accepted and is not settled, agents' own sessions, the session last written."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable

from pydantic import TypeAdapter

from cueloop_daemon.runs.batches import find_conversation, forget_worked_in
from cueloop_daemon.runs.journal import RunJournal
from cueloop_daemon.runs.lane import DbLane
from cueloop_daemon.runs.records import Conversation
from cueloop_daemon.runs.types import OwedRow
from cueloop_daemon.store.stop_marker import MARKER
from cueloop_daemon.store.system import System
from cueloop_protocol.roots import Root

OWED: TypeAdapter[OwedRow] = TypeAdapter(OwedRow)
ETAGS: TypeAdapter[tuple[str, ...]] = TypeAdapter(tuple[str, ...])

KEPT_ETAGS = 2
"""Of the bytes that stood before a write and of those that were to stand after it: one of them is there after a crash."""


class OwedRows:
    """See `types.Owed`. `changed(rows)` is awaited after each change: previews show what the next start will settle first."""

    def __init__(self, lane: DbLane, changed: Callable[[tuple[OwedRow, ...]], Awaitable[None]]) -> None:
        self._lane = lane
        self._changed = changed

    def rows(self) -> tuple[OwedRow, ...]:
        return self._lane.now(owed_rows)

    async def accept(self, row: OwedRow) -> None:
        await self._changed(await self._lane.write(lambda db: _accept(db, row)))

    async def settled(self, task_id: str) -> None:
        await self._changed(await self._lane.write(lambda db: _settled(db, task_id)))


def owed_rows(db: sqlite3.Connection) -> tuple[OwedRow, ...]:
    """All of them, oldest first."""
    return tuple(OWED.validate_json(body) for (body,) in db.execute("SELECT body FROM owed ORDER BY seq"))


def _accept(db: sqlite3.Connection, row: OwedRow) -> tuple[OwedRow, ...]:
    db.execute(
        "INSERT INTO owed SELECT ?, coalesce(max(seq), 0) + 1, ? FROM owed WHERE true ON CONFLICT DO NOTHING",
        (row.task_id, OWED.dump_json(row)),
    )
    return owed_rows(db)


def _settled(db: sqlite3.Connection, task_id: str) -> tuple[OwedRow, ...]:
    for row in owed_rows(db):
        if row.task_id == task_id:
            forget_worked_in(db, task_id, row.run_id)
    db.execute("DELETE FROM owed WHERE task_id = ?", (task_id,))
    return owed_rows(db)


class ConversationBook:
    """See `types.Conversations`. What is kept rides with the journal's next commit, and is found at once."""

    def __init__(self, lane: DbLane, journal: RunJournal) -> None:
        self._lane = lane
        self._journal = journal
        self._kept: dict[tuple[str, str, int, int, str], Conversation] = {}

    def find(self, task_id: str, session_id: str, iteration: int, phase: int, runner: str) -> str | None:
        place = (task_id, session_id, iteration, phase, runner)
        if (kept := self._kept.get(place)) is not None:
            return None if kept.state == "gone" else kept.body
        return self._lane.now(lambda db: find_conversation(db, place))

    def keep(self, task_id: str, session_id: str, iteration: int, phase: int, runner: str, conversation: str, state: str) -> None:
        one = Conversation(task_id, session_id, iteration, phase, runner, conversation, state)
        if self._kept.get(one[:5]) != one:
            self._kept[one[:5]] = one
            self._journal.keep_conversation(one)


class LastSession:
    """The etags of what a run wrote to the session file last: after a crash, whether its own bytes stand there. Blocking."""

    def __init__(self, lane: DbLane, run_id: str) -> None:
        self._lane = lane
        self._run_id = run_id

    def etags(self) -> tuple[str, ...]:
        """The last ones, oldest first; none if another run wrote last."""
        return self._lane.now(lambda db: _etags(db, self._run_id))

    def remember(self, etag: str | None) -> None:
        """Bytes with this etag are about to be written; None: the file is about to be removed. On the medium when it returns."""
        self._lane.put(lambda db: _remember(db, self._run_id, etag))


def _etags(db: sqlite3.Connection, run_id: str) -> tuple[str, ...]:
    found = db.execute("SELECT etags FROM last_session WHERE run_id = ?", (run_id,)).fetchone()
    return () if found is None else ETAGS.validate_json(found[0])


def _remember(db: sqlite3.Connection, run_id: str, etag: str | None) -> None:
    kept = () if etag is None else (*_etags(db, run_id), etag)[-KEPT_ETAGS:]
    db.execute("REPLACE INTO last_session VALUES (1, ?, ?)", (run_id, ETAGS.dump_json(kept)))


class StopMarkerFile:
    """See `types.StopMarker`."""

    def __init__(self, root: Root, system: System) -> None:
        self._path = root.join(*MARKER)
        self._system = system

    def seen(self) -> str | None:
        try:
            status = self._system.lstat(self._path)
        except OSError:
            return None
        return f"{status.st_dev}:{status.st_ino}:{status.st_ctime_ns}"

    def remove(self, identity: str) -> None:
        """Between the look and the removal somebody else's new marker could come: it says the same, and is honoured by this."""
        if self.seen() == identity:
            try:
                self._system.unlink(self._path)
            except FileNotFoundError:
                return

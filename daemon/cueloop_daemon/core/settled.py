"""The repository as it will be once owed work is settled: what a preview decides over, and what a run meets under the lock. Pure.

Between a task's acceptance and the end of its completion a crash leaves queue and session behind that the next start of any run
corrects first. Until then they would speak of a task that is finished as one to resume.
"""

from __future__ import annotations

from dataclasses import replace

from cueloop_daemon.core.model import (
    OwedTask,
    QueueFile,
    QueueMissing,
    SessionFile,
    SessionLoaded,
    SessionMissing,
    Snapshot,
    TaskRow,
)
from cueloop_daemon.core.selection import SETTLED


def settled(facts: Snapshot) -> Snapshot:
    """The same snapshot, if nothing is owed; else with queue, done file and session as they will be."""
    if not facts.owed or not isinstance(facts.queue, QueueFile):
        return facts
    owed = {one.task_id.strip(): one for one in facts.owed}
    finished = [row for row in facts.queue.rows if _will_be_finished(row, owed)]
    left = [row for row in facts.queue.rows if row not in finished]
    done = facts.done
    if isinstance(done, QueueFile | QueueMissing):
        before = done.rows if isinstance(done, QueueFile) else ()
        done = _file((*before, *(row._replace(status="done") if row.status == "doing" else row for row in finished)))
    return replace(facts, queue=_file(tuple(left)), done=done, session=_session(facts.session, owed), owed=())


def _will_be_finished(row: TaskRow, owed: dict[str, OwedTask]) -> bool:
    """What somebody set to another status since is left as they want it."""
    return row.id.strip() in owed and (row.status == "doing" or row.status in SETTLED)


def _session(file: SessionFile, owed: dict[str, OwedTask]) -> SessionFile:
    """Removed, if it is the very one that the accepted work left."""
    if not isinstance(file, SessionLoaded):
        return file
    found = owed.get(file.session.task_id.strip())
    return SessionMissing() if found is not None and found.session_etag == file.etag else file


def _file(rows: tuple[TaskRow, ...]) -> QueueFile:
    index: dict[str, int] = {}
    for position, row in enumerate(rows):
        index.setdefault(row.id.strip(), position)
    return QueueFile(rows, index, b"[]")

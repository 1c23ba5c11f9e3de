"""The session file, and whether its task can still be gone on with."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from shlex import quote

from cueloop_daemon import answers
from cueloop_daemon.core.model import (
    QueueFile,
    SessionCorrupt,
    SessionLoaded,
    SessionTooLarge,
    SessionTooNew,
    SessionUnreadable,
    Snapshot,
)
from cueloop_daemon.core.selection import SETTLED, row_of
from cueloop_daemon.core.settled import settled
from cueloop_daemon.core.stamps import AgeUnknown, age_of
from cueloop_daemon.doctor.kinds import found
from cueloop_daemon.doctor.sight import Sight
from cueloop_daemon.workspace.loading import session_path
from cueloop_protocol.documents.doctor import Finding

NAME = (".cueloop", "cache", "session.jsonc")


def session(sight: Sight) -> Iterator[Finding]:
    """What keeps the next run from going on with the session. While a run is at work it is that run's."""
    if sight.facts.active_run is not None or answers.is_run_lock(sight.facts.lock):
        return
    facts, path = settled(sight.facts), sight.seen(*NAME)
    match facts.session:
        case SessionLoaded() as file:
            yield from _loaded(sight, facts, file)
        case SessionCorrupt(detail):
            if sight.facts.settling:
                yield found("session-settling", f"{path} was being written just now.", path=path)
            else:
                yield found("session-corrupt", f"{path} is damaged.", cause=detail, path=path)
        case SessionTooLarge(size):
            yield found("session-too-large", f"{path} has {size} bytes.", path=path)
        case SessionTooNew(version):
            yield found("session-too-new", f"{path} has version {version}.", path=path)
        case SessionUnreadable(detail):
            yield _unreadable(sight, detail, path)


def _unreadable(sight: Sight, detail: str, path: str) -> Finding:
    try:
        is_file = stat.S_ISREG(os.lstat(session_path(sight.root)).st_mode)
    except OSError:
        is_file = True
    if is_file:
        return found("session-unreadable", f"{path}: {detail}", fix=f"chmod u+rw {quote(path)}", path=path)
    return found("session-not-a-file", f"{path}: {detail}", path=path)


def _loaded(sight: Sight, facts: Snapshot, file: SessionLoaded) -> Iterator[Finding]:
    """A stale session before an old one, as the decision has it."""
    task, path = file.session.task_id.strip(), sight.seen(*NAME)
    if isinstance(facts.queue, QueueFile):
        row = row_of(facts.queue, task)
        if row is None:
            yield found("session-task-missing", f"The session's task {task} is not in the queue.", path=path)
            return
        if row.kind != "group" and row.status in SETTLED:
            yield found("session-task-finished", f"The session's task {task} is {row.status} in the queue.", path=path)
            return
        if row.kind == "group" or row.status != "doing":
            what = "a group" if row.kind == "group" else f"{row.status}, not doing,"
            yield found("session-task-not-doing", f"The session's task {task} is {what} in the queue.", path=path)
            return
    age = age_of(file.session.last_updated_at, sight.now)
    limit = sight.config.agent.session_timeout_hours if sight.config is not None else None
    if isinstance(age, AgeUnknown):
        stamp = file.session.last_updated_at[:60]
        yield found("session-age-unknown", f"The age of the session of {task} is unknown: {stamp!r} {age.why}.", path=path)
    elif limit is not None and age.hours >= limit:
        yield found("session-timed-out", f"The session of {task} is {age.hours} hours old; the limit is {limit}.", path=path)
    else:
        yield found("session-waiting", f"The session of {task} waits to be gone on with.", path=path)

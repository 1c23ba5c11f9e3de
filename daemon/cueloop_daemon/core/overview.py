"""The workspace overview (contract section 7) as bytes: the printed tasks are taken over as they are, never parsed here."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from pydantic_core import to_json

from cueloop_daemon.core.checked import CheckedQueue
from cueloop_daemon.core.model import QueueFile, QueueMissing, Snapshot, Unusable
from cueloop_daemon.core.resolve import resolve_document
from cueloop_daemon.core.runnability import Report, invalid_report, report
from cueloop_daemon.core.validity import broken_rule
from cueloop_protocol.documents.config import Config
from cueloop_protocol.documents.decision import Decision
from cueloop_protocol.documents.resolve import resolve_json

_NO_TASKS: Final = b"[]"


def overview_document(snapshot: Snapshot, preview: Decision | None, now: datetime) -> bytes | Unusable:
    """The whole document as compact UTF-8 JSON on one line, or the file that cannot be used.

    A missing done file is an empty one; a missing queue is an error here. A queue that is not valid is told in the report.
    """
    config, queue, done = snapshot.config, snapshot.queue, snapshot.done
    if isinstance(config, Unusable):
        return config
    if isinstance(queue, QueueMissing):
        return missing_queue(queue)
    if isinstance(queue, Unusable):
        return queue
    if isinstance(done, Unusable):
        return done
    archive = done if isinstance(done, QueueFile) else None
    document = resolve_document(snapshot, preview)
    found = queue_report(queue, archive, config, now)
    parts = [
        b'{"version":1,"queue":{"version":1,"paths":',
        to_json(document.paths),
        b',"active":{"version":1,"tasks":',
        queue.rendered,
        b'},"done":{"version":1,"tasks":',
        _NO_TASKS if archive is None else archive.rendered,
        b"}",
    ]
    if found.next_runnable is not None:
        parts += [b',"next_runnable_task_id":', to_json(found.next_runnable)]
    parts += [b',"runnability":', to_json(found.document), b'},"config":', resolve_json(document), b"}"]
    return b"".join(parts)


def missing_queue(queue: QueueMissing) -> Unusable:
    """A queue file that does not exist, where an answer needs one."""
    return Unusable("queue_corrupted", f"There is no queue file at {queue.path}.", "Create one with `cueloop init`.", queue.path)


def queue_report(queue: QueueFile, done: QueueFile | None, config: Config, now: datetime) -> Report:
    """The runnability report of these files; for files that are not valid together, the report that says so."""
    problem = broken_rule(queue, done, config.queue.id_prefix, config.queue.id_width)
    if problem is not None:
        return invalid_report(queue, problem, now)
    return report(queue, done, queue.first_draft if isinstance(queue, CheckedQueue) else None, now)

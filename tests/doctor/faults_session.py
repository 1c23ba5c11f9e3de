"""Faults of the session file, and how to mend them."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from doctor.fault import Act, Fault
from doctor.lab import Lab
from support.repository import queue, session, task


def _put_session(data: bytes) -> Act:
    return lambda lab: lab.repository.session.write_bytes(data)


def _clear(lab: Lab) -> None:
    lab.repository.session.unlink()


def _odd_session(make: Callable[[Path], object]) -> Act:
    return lambda lab: make(lab.repository.session)


def _doing(lab: Lab) -> None:
    lab.repository.queue.write_bytes(queue())


def _with_task(status: str, **more: object) -> Act:
    def make(lab: Lab) -> None:
        lab.repository.queue.write_bytes(queue(task(1, status, **more), task(2, "todo")))
        lab.repository.session.write_bytes(session())

    return make


def _bind(path: Path) -> None:
    place = os.open(path.parent, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"/proc/self/fd/{place}/{path.name}")
    finally:
        os.close(place)


OLD, FUTURE = session(timedelta(hours=25)), session(-timedelta(hours=2))
GONE = session(task_id="RQ-0009")

FAULTS = (
    Fault("waiting", "session-waiting", _put_session(session()), _clear, ("cueloop run resume",)),
    Fault("half-written", "session-settling", _put_session(b"{"), None, (), is_settled=False),
    Fault("damaged", "session-corrupt", _put_session(b"{"), _clear, ("line 1", "cueloop session clear")),
    Fault("large", "session-too-large", _put_session(b" " * (1 << 20) + b" "), _clear, ("1048577", "session clear")),
    Fault("newer", "session-too-new", _put_session(session(version=2)), _clear, ("version 2",)),
    Fault(
        "no access",
        "session-unreadable",
        lambda lab: (lab.repository.session.write_bytes(session()), lab.repository.session.chmod(0)),
        lambda lab: lab.repository.session.chmod(0o600),
        ("chmod u+rw",),
        is_command=True,
    ),
    Fault(
        "a folder",
        "session-not-a-file",
        _odd_session(lambda path: path.mkdir()),
        lambda lab: lab.repository.session.rmdir(),
        ("folder",),
    ),
    Fault("a link", "session-not-a-file", _odd_session(lambda path: path.symlink_to("/dev/null")), _clear, ("link",)),
    Fault("a FIFO", "session-not-a-file", _odd_session(os.mkfifo), _clear, ("FIFO",)),
    Fault("a socket", "session-not-a-file", _odd_session(_bind), _clear, ("socket",)),
    Fault("timed out", "session-timed-out", _put_session(OLD), _clear, ("25 hours", "24", "cueloop run one")),
    Fault("future", "session-age-unknown", _put_session(FUTURE), _clear, ("future",)),
    Fault(
        "no offset", "session-age-unknown", _put_session(session(last_updated_at="2026-02-07T10:00:00")), _clear, ("RFC 3339",)
    ),
    Fault("task gone", "session-task-missing", _put_session(GONE), _clear, ("RQ-0009",)),
    Fault("task done", "session-task-finished", _with_task("done", completed_at="2026-02-07T10:00:00Z"), _doing, ("done",)),
    Fault(
        "task rejected",
        "session-task-finished",
        _with_task("rejected", completed_at="2026-02-07T10:00:00Z"),
        _doing,
        ("rejected",),
    ),
    Fault("task to do", "session-task-not-doing", _with_task("todo"), _doing, ("todo", "`doing`")),
    Fault("task is a group", "session-task-not-doing", _with_task("doing", kind="group"), _doing, ("group",)),
)

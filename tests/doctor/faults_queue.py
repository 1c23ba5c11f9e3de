"""Faults of queue, done file and queue lock, and how to mend them."""

from __future__ import annotations

import shutil

from doctor.fault import Act, Fault
from doctor.lab import Lab
from support.repository import queue, task


def _doing(lab: Lab) -> None:
    lab.repository.queue.write_bytes(queue())


def _put_queue(data: bytes) -> Act:
    return lambda lab: lab.repository.queue.write_bytes(data)


def _hold(lab: Lab) -> None:
    lab.repository.take_lock("task", lab.child())


def _left(lab: Lab) -> None:
    lab.repository.take_lock("run one", lab.dead())


CIRCLE = queue(task(1, "todo", depends_on=["RQ-0002"]), task(2, "todo", depends_on=["RQ-0001"]))
MANY = queue(*(task(number, "todo") for number in range(1, 52)))
SHARED_LIMITS = '{"queue": {"task_count_warning_threshold": 50}}'

FAULTS = (
    Fault("missing", "queue-missing", lambda lab: lab.repository.queue.unlink(), _doing, ("queue.jsonc", "cueloop init")),
    Fault(
        "no access",
        "queue-unreadable",
        lambda lab: lab.repository.queue.chmod(0),
        lambda lab: lab.repository.queue.chmod(0o644),
        ("chmod u+r",),
        is_command=True,
    ),
    Fault(
        "folder",
        "queue-unreadable",
        lambda lab: (lab.repository.queue.unlink(), lab.repository.queue.mkdir()),
        lambda lab: (lab.repository.queue.rmdir(), _doing(lab)),
        ("folder",),
    ),
    Fault("not JSON", "queue-not-json", _put_queue(b'{\n"version": 1,\n"tasks": [}\n'), _doing, ("line 3",)),
    Fault("unknown key", "queue-not-a-queue", _put_queue(queue(task(1, "todo", colour="red"))), _doing, ("colour", "RQ-0001")),
    Fault("id twice", "queue-invalid", _put_queue(queue(task(1, "todo"), task(1, "todo"))), _doing, ("RQ-0001",)),
    Fault("dependency", "queue-invalid", _put_queue(queue(task(1, "todo", depends_on=["RQ-0009"]))), _doing, ("RQ-0009",)),
    Fault("circle", "queue-invalid", _put_queue(CIRCLE), _doing, ("RQ-0001",)),
    Fault(
        "done file",
        "done-unusable",
        lambda lab: (lab.repository.folder / "done.jsonc").write_text("[1"),
        lambda lab: (lab.repository.folder / "done.jsonc").unlink(),
        ("done.jsonc",),
    ),
    Fault(
        "large",
        "queue-large",
        lambda lab: (lab.repository.queue.write_bytes(MANY), lab.repository.config.write_text(SHARED_LIMITS)),
        _doing,
        ("51 tasks", "50"),
    ),
    Fault("lock held", "queue-lock-held", _hold, lambda lab: lab.repository.release_lock(), ("task", "process")),
    Fault("lock of a dead process", "queue-lock-dead", _left, lambda lab: shutil.rmtree(lab.repository.lock), ("dead", "rm -r")),
    Fault(
        "lock without owner",
        "queue-lock-without-owner",
        lambda lab: lab.repository.lock.mkdir(),
        lambda lab: shutil.rmtree(lab.repository.lock),
        ("rm -r",),
    ),
)

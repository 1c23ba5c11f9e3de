"""Queue and done file, and the queue lock."""

from __future__ import annotations

import os
from collections.abc import Iterator
from shlex import quote

from cueloop_daemon import answers
from cueloop_daemon.core.model import QueueFile, QueueMissing, Unusable
from cueloop_daemon.core.validity import broken_rule
from cueloop_daemon.doctor.kinds import found
from cueloop_daemon.doctor.sight import Sight
from cueloop_daemon.store.jsonc import JsoncError, read_json
from cueloop_daemon.workspace.files import read_regular
from cueloop_protocol.documents.doctor import Finding
from cueloop_protocol.roots import expand


def queue(sight: Sight) -> Iterator[Finding]:
    """The queue file by itself, then together with the done file."""
    match sight.facts.queue:
        case QueueMissing(path):
            yield found("queue-missing", f"There is no queue file {path}.", path=path)
        case Unusable() as unusable:
            yield _unusable(sight, unusable)
        case QueueFile() as file:
            done, config = sight.facts.done, sight.config
            together = done if isinstance(done, QueueFile) else None
            if config is None:
                return
            path = sight.facts.paths.queue_path
            problem = broken_rule(file, together, config.queue.id_prefix, config.queue.id_width)
            if problem is not None:
                yield found("queue-invalid", f"{path}: {problem}", path=path)
            yield from _large(sight, file)


def _unusable(sight: Sight, unusable: Unusable) -> Finding:
    name = ".cueloop/queue.jsonc" if sight.config is None else sight.config.queue.file
    fix = None
    try:
        data, _ = read_regular(expand(name, sight.root, sight.caller).io)
        read_json(data or b"")
        code = "queue-not-a-queue"
    except JsoncError as exc:
        code, fix = (
            "queue-not-json",
            f"Correct line {exc.line}, column {exc.column} of {unusable.path}, or restore the file from git.",
        )
    except OSError as exc:
        code = "queue-unreadable"
        fix = f"chmod u+r {quote(unusable.path)}" if isinstance(exc, PermissionError) else unusable.detail
    return found(
        code, unusable.message, cause=unusable.detail if code == "queue-not-a-queue" else None, fix=fix, path=unusable.path
    )


def _large(sight: Sight, file: QueueFile) -> Iterator[Finding]:
    config = sight.config
    assert config is not None
    path = sight.facts.paths.queue_path
    try:
        size = os.stat(expand(config.queue.file, sight.root, sight.caller).io).st_size
    except OSError:
        size = 0
    most, limit = config.queue.task_count_warning_threshold, config.queue.size_warning_threshold_kb
    if len(file.rows) > most:
        yield found("queue-large", f"{path} holds {len(file.rows)} tasks; the threshold is {most}.", path=path)
    elif size > limit * 1024:
        yield found("queue-large", f"{path} has {size // 1024} KiB; the threshold is {limit}.", path=path)


def done(sight: Sight) -> Iterator[Finding]:
    """The done file by itself; a missing one is none of anybody's business."""
    if isinstance(unusable := sight.facts.done, Unusable):
        message = f"{unusable.message} {unusable.detail or ''}".strip()
        yield found("done-unusable", message, path=unusable.path)


def lock(sight: Sight) -> Iterator[Finding]:
    """Who holds the queue lock, unless it is the run that is at work here."""
    held, path = sight.facts.lock, sight.seen(".cueloop", "lock")
    if held is None or sight.facts.active_run is not None:
        return
    who = f"{held.label or 'a tool without a label'}, process {held.pid}, since {held.started_at or 'an unknown time'}"
    if held.live:
        is_run = answers.is_run_lock(held)
        cause = "Another tool runs a task here; its session is not an interrupted one." if is_run else None
        yield found("queue-lock-held", f"The queue lock is held by {who}.", cause=cause, path=path)
    elif held.pid is not None:
        yield found("queue-lock-dead", f"The queue lock was left by {who}, which is dead.", fix=_removal(path), path=path)
    else:
        yield found("queue-lock-without-owner", f"{path} has no readable owner.", fix=_removal(path, sure=True), path=path)


def _removal(path: str, *, sure: bool = False) -> str:
    command = f"rm -r {quote(path)}"
    return f"If no CueLoop tool is running: {command}" if sure else f"Nothing: the next run clears it. By hand: {command}"

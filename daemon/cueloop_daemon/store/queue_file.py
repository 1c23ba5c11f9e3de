"""Queue and done file, read (contract section 8): bytes in, rows and printed tasks out, or why the file cannot be used.

A big file is parsed in a worker process: `pack_queue` there, `unpack_queue` here.
"""

from __future__ import annotations

import gc
import marshal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TypeGuard

from pydantic import ValidationError
from pydantic_core import to_json

from cueloop_daemon.core.checked import CheckedQueue, Reference
from cueloop_daemon.core.model import TaskRow, Unusable
from cueloop_daemon.core.task_rules import check
from cueloop_daemon.store.explain import what_is_wrong
from cueloop_daemon.store.jsonc import JsoncError, read_json
from cueloop_protocol.documents.queue import QueueDocument, RunnerCli, Task, TaskAgent

_KNOWN_KEYS: Final = {
    (): tuple(QueueDocument.model_fields),
    ("tasks",): tuple(Task.model_fields),
    ("tasks", "agent"): tuple(TaskAgent.model_fields),
    ("tasks", "agent", "runner_cli"): tuple(RunnerCli.model_fields),
}


def parse_queue(data: bytes, path_shown: str, *, json5: bool = True) -> CheckedQueue | Unusable:
    """The file's tasks, or an error that names file, line where there is one, key, value and what is allowed. Never raises."""
    try:
        value = read_json(data, json5=json5)
    except JsoncError as error:
        place = f"line {error.line}, column {error.column}"
        return Unusable("queue_corrupted", f"{path_shown} cannot be read: {error.reason}.", f"It is at {place}.", path_shown)
    if isinstance(value, dict):
        value.pop("$schema", None)
    try:
        document = QueueDocument.model_validate(value)
    except ValidationError as error:
        where = _task_in_question(error, value)
        return Unusable("queue_corrupted", f"{path_shown} cannot be used: {what_is_wrong(error, _KNOWN_KEYS)}", where, path_shown)
    return check(document.tasks, to_json(document.tasks))


def _task_in_question(error: ValidationError, value: object) -> str | None:
    """Which task the first error is about, in the words of its id; None where it has none."""
    location = error.errors(include_url=False)[0]["loc"]
    if len(location) < 2 or not isinstance(location[1], int) or not _is_object(value):
        return None
    tasks = value["tasks"]
    task = tasks[location[1]] if isinstance(tasks, list) else None
    name = task.get("id") if _is_object(task) else None
    return f"It is in task {name[:60]}." if isinstance(name, str) and name.strip() else None


def _is_object(value: object) -> TypeGuard[dict[str, object]]:
    return isinstance(value, dict)


def pack_queue(data: bytes, path_shown: str, *, json5: bool = True) -> bytes:
    """`parse_queue`, its result as bytes that `unpack_queue` takes in the same Python version. For a worker process."""
    with _collector_at_rest():
        return _packed(parse_queue(data, path_shown, json5=json5))


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    """No garbage collection meanwhile: with this many new objects alive it takes more time than the work."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _packed(parsed: CheckedQueue | Unusable) -> bytes:
    if isinstance(parsed, Unusable):
        return marshal.dumps((False, (parsed.code, parsed.message, parsed.detail, parsed.path)))
    return marshal.dumps(
        (
            True,
            [tuple(row) for row in parsed.rows],
            dict(parsed.index),
            parsed.rendered,
            parsed.problem,
            dict(parsed.forms),
            [tuple(reference) for reference in parsed.outside],
            parsed.open_task,
            parsed.rejected,
            dict(parsed.blocks),
            dict(parsed.parents),
            parsed.first_draft,
        )
    )


def unpack_queue(packed: bytes) -> CheckedQueue | Unusable:
    """What `pack_queue` found. A few milliseconds for ten thousand tasks. `packed` must come from our own worker."""
    with _collector_at_rest():
        return _unpacked(packed)


def _unpacked(packed: bytes) -> CheckedQueue | Unusable:
    is_usable, *parts = marshal.loads(packed)
    if not is_usable:
        return Unusable(*parts[0])
    rows, index, rendered, problem, forms, outside, open_task, rejected, blocks, parents, first_draft = parts
    return CheckedQueue(
        rows=tuple(map(TaskRow._make, rows)),
        index=index,
        rendered=rendered,
        problem=problem,
        forms=forms,
        outside=tuple(map(Reference._make, outside)),
        open_task=open_task,
        rejected=rejected,
        blocks=blocks,
        parents=parents,
        first_draft=first_draft,
    )

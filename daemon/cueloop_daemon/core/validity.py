"""Whether queue and done file together are valid: what a run needs before it may choose a task (contract section 7)."""

from __future__ import annotations

from cueloop_daemon.core.checked import CheckedQueue
from cueloop_daemon.core.model import QueueFile
from cueloop_daemon.core.task_rules import circle


def broken_rule(queue: QueueFile, done: QueueFile | None, id_prefix: str, id_width: int) -> str | None:
    """A rule that is broken, as one sentence for people, or None. What a file breaks by itself was found when it was parsed."""
    checked = [file for file in (queue, done) if isinstance(file, CheckedQueue)]
    expected = (id_prefix.strip().upper(), id_width)
    for file in checked:
        for form, name in file.forms.items():
            if form != expected:
                return f"Task {name} should have an id like {expected[0]}-{1:0{id_width}d}, as the configuration says."
        if file.problem is not None:
            return file.problem
    if isinstance(done, CheckedQueue) and done.open_task is not None:
        return f"Task {done.open_task} stands in the done file and is neither done nor rejected."
    return _twice(checked) or _dangling(queue, done, checked) or _joint_circle(checked)


def _twice(files: list[CheckedQueue]) -> str | None:
    if len(files) < 2:
        return None
    queue, done = files
    shared = (queue.index.keys() - queue.rejected) & (done.index.keys() - done.rejected)
    return f"Task {min(shared)} stands in the queue and in the done file." if shared else None


def _dangling(queue: QueueFile, done: QueueFile | None, files: list[CheckedQueue]) -> str | None:
    for file in files:
        for task_id, field, target in file.outside:
            if target not in queue.index and (done is None or target not in done.index):
                return f"Task {task_id} names {target or 'a blank id'} in {field}; there is no such task."
    return None


def _joint_circle(files: list[CheckedQueue]) -> str | None:
    """A circle through both files. Only then does the done file name a task of the queue, which is rare."""
    if len(files) < 2 or not (files[1].outside or files[1].parents):
        return None
    depends: dict[str, list[str]] = {}
    blocks: dict[str, list[str]] = {}
    parents: dict[str, str] = {}
    for file in reversed(files):
        for row in file.rows:
            depends.setdefault(row.id.strip(), []).extend(name.strip() for name in row.depends_on)
        for name, targets in file.blocks.items():
            blocks.setdefault(name, []).extend(targets)
        parents.update(file.parents)
    return circle(depends, blocks, parents)

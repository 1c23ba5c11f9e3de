"""The rules that one queue or done file must keep by itself, beyond being readable (contract section 7, "not valid").

They are those of the other tool that writes these files: it refuses to run on a queue that breaks one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

from cueloop_daemon.core.checked import CheckedQueue, IdForm, Reference
from cueloop_daemon.core.graph import cycle_member
from cueloop_daemon.core.model import TaskRow
from cueloop_daemon.core.selection import SETTLED
from cueloop_daemon.core.stamps import parse_stamp
from cueloop_protocol.documents.queue import Task, TaskAgent

_ID: Final = re.compile(r"([^-]*)-\s*([0-9]+)")
_LARGEST_NUMBER: Final = 2**32 - 1
_SPACE: Final = re.compile(r"\s")
# Almost every stamp looks like this, and needs no calendar: days up to the 28th exist in every month.
_PLAIN_STAMP: Final = re.compile(
    r"(?!0000)[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?Z"
)


def check(tasks: Sequence[Task], rendered: bytes) -> CheckedQueue:
    """The file with these tasks, `rendered` being their JSON array, and everything found out about it."""
    names = [task.id.strip() for task in tasks]
    named = list(zip(names, tasks, strict=True))
    index: dict[str, int] = {}
    for position, name in enumerate(names):
        if name:
            index.setdefault(name, position)
    forms: dict[IdForm, str] = {}
    parents = {name: task.parent_id.strip() for name, task in named if task.parent_id is not None and task.parent_id.strip()}
    depends: defaultdict[str, list[str]] = defaultdict(list)
    blocks: defaultdict[str, list[str]] = defaultdict(list)
    outside: list[Reference] = []
    problem = next(_broken_alone(named, forms), None)
    for reference in _references(named):
        if reference.target not in index:
            outside.append(reference)
        if reference.target == reference.task_id:
            problem = problem or f"Task {reference.task_id} names itself in {reference.field}."
        elif reference.field == "depends_on":
            depends[reference.task_id].append(reference.target)
        elif reference.field == "blocks":
            blocks[reference.task_id].append(reference.target)
    return CheckedQueue(
        rows=tuple(TaskRow(task.id, task.status, task.kind, task.title, task.depends_on, task.scheduled_start) for task in tasks),
        index=index,
        rendered=rendered,
        problem=problem or circle(depends, blocks, parents),
        forms=forms,
        outside=tuple(outside),
        open_task=next((name for name, task in named if task.status not in SETTLED), None),
        rejected=frozenset(index).difference(name for name, task in named if task.status != "rejected"),
        blocks={name: tuple(targets) for name, targets in blocks.items()},
        parents=parents,
        first_draft=_first_draft(named, frozenset(parents.values())),
    )


def circle(depends: dict[str, list[str]], blocks: dict[str, list[str]], parents: dict[str, str]) -> str | None:
    """The sentence about a circle of dependencies, of blocking or of parents, or None. A task may be its own parent."""
    above = {name: (parent,) for name, parent in parents.items() if parent != name}
    for what, member in (
        ("dependencies", cycle_member(depends)),
        ("blocking tasks", cycle_member(blocks)),
        ("parents", cycle_member(above)),
    ):
        if member is not None:
            return f"There is a circle of {what} through task {member}."
    return None


def _broken_alone(named: Sequence[tuple[str, Task]], forms: dict[IdForm, str]) -> Iterator[str]:
    """A sentence for each rule broken that looks at no relation; `forms` is filled on the way."""
    seen: set[str] = set()
    for position, (name, task) in enumerate(named):
        match = _ID.fullmatch(name)
        if match is not None:
            forms.setdefault((match[1].strip().upper(), len(match[2])), name)
        if match is None or int(match[2]) > _LARGEST_NUMBER:
            yield f"Task {position + 1} has the id {name!r}; an id is a prefix, a dash and a number, like RQ-0001."
        yield from _broken_fields(name, task)
        if task.status != "rejected":
            if name in seen:
                yield f"The id {name} is given to more than one task."
            seen.add(name)


def _broken_fields(name: str, task: Task) -> Iterator[str]:
    if not task.title.strip():
        yield f"Task {name} has no title."
    for key, values in (("tags", task.tags), ("scope", task.scope), ("evidence", task.evidence), ("plan", task.plan)):
        if values and not all(value.strip() for value in values):
            yield f"Task {name} has an empty item in {key}."
    for key in task.custom_fields:
        if not key.strip() or _SPACE.search(key.strip()):
            yield f"Task {name} has a custom field {key!r}; such a key is a word without blanks."
    yield from _broken_stamps(name, task)
    if task.agent is not None:
        yield from _broken_agent(name, task.agent)


def _broken_stamps(name: str, task: Task) -> Iterator[str]:
    must_be_completed = task.status in SETTLED
    for key, text, is_required in (
        ("created_at", task.created_at, True),
        ("updated_at", task.updated_at, True),
        ("completed_at", task.completed_at, must_be_completed),
    ):
        if text is None:
            if is_required:
                yield f"Task {name} has no {key}."
        elif _PLAIN_STAMP.fullmatch(text) is None and not _is_utc(text):
            yield f"Task {name} has the {key} {text[:60]!r}; it must be an RFC 3339 time in UTC."


def _is_utc(text: str) -> bool:
    moment = parse_stamp(text.strip())
    return moment is not None and moment.utcoffset() == timedelta()


def _broken_agent(name: str, agent: TaskAgent) -> Iterator[str]:
    if agent.iterations == 0:
        yield f"Task {name} has agent.iterations 0; at least 1 is allowed."
    if agent.phases is not None and not 1 <= agent.phases <= 3:
        yield f"Task {name} has agent.phases {agent.phases}; 1, 2 and 3 are allowed."


def _references(named: Sequence[tuple[str, Task]]) -> Iterator[Reference]:
    """Every task that names another one. Blank names in lists are passed over."""
    for name, task in named:
        for field, targets in (("depends_on", task.depends_on), ("blocks", task.blocks), ("relates_to", task.relates_to)):
            for target in targets:
                if target.strip():
                    yield Reference(name, field, target.strip())
        if task.duplicates is not None:
            yield Reference(name, "duplicates", task.duplicates.strip())


def _first_draft(named: Sequence[tuple[str, Task]], parents: frozenset[str]) -> str | None:
    """Where all work is drafts: the first that is no other task's parent, else the first."""
    work = [(name, task) for name, task in named if task.kind == "work_item"]
    if not work or any(task.status != "draft" for _, task in work):
        return None
    return next((task.id for name, task in work if name not in parents), work[0][1].id)

"""A queue or done file with what was found out about its rules when it was parsed, so that nobody walks all tasks again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from cueloop_daemon.core.model import QueueFile
from cueloop_protocol.values import dataclass

IdForm = tuple[str, int]
"""Prefix in upper case, and the number of digits, of an id like `RQ-0001`."""


class Reference(NamedTuple):
    """A task that names another one which its own file does not have. `field` is the key that names it."""

    task_id: str
    field: str
    target: str


@dataclass(frozen=True, slots=True)
class CheckedQueue(QueueFile):
    """A file that parsed. Ids here are trimmed; of equal rules the first one broken is named.

    `problem`: a rule that the file breaks by itself, as one sentence. `forms`: every form of id, with the first id of it.
    `outside`: references that another file has to satisfy. `open_task`: the first task that is neither done nor rejected.
    `rejected`: ids of rejected tasks alone, which may stand in both files. `blocks`, `parents`: those relations, where there are
    any. `first_draft`: the draft to make ready first, where all work is drafts.
    """

    problem: str | None
    forms: Mapping[IdForm, str]
    outside: tuple[Reference, ...]
    open_task: str | None
    rejected: frozenset[str]
    blocks: Mapping[str, tuple[str, ...]]
    parents: Mapping[str, str]
    first_draft: str | None

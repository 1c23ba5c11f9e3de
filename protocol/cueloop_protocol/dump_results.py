"""The result of `daemon.dump`: what a maintainer needs to see of a daemon, without what is a person's own.

Left out or replaced: contents of files, values of the environment, prompts, task texts, output, secrets, e-mail addresses; the home
folder is `~`. Never more than a MiB as JSON: what had to go is said in `notes`.
"""

from __future__ import annotations

from typing import Literal

from cueloop_protocol.base import Exactly, Items, JsonObject, Maybe, Wire
from cueloop_protocol.results import StatusResult
from cueloop_protocol.shapes import Count


class TaskStack(Wire):
    """A task of the event loop and where it stands: `file:line function`, outermost first."""

    id: Count
    name: str
    state: Literal["running", "waiting", "cancelling"]
    frames: Items[str]


class ThreadStack(Wire):
    """A thread and where it stands, outermost first."""

    name: str
    frames: Items[str]


class FileFact(Wire):
    """A file of interest. `etag` is of its bytes, `mode` octal; all are left out where there is nothing to tell."""

    name: str
    path: str
    kind: Literal["missing", "file", "folder", "link", "other", "unreadable"]
    size: Maybe[Count] = None
    mode: Maybe[str] = None
    is_ours: Maybe[bool] = None
    modified_at: Maybe[str] = None
    etag: Maybe[str] = None
    reason: Maybe[str] = None


class StepFact(Wire):
    """A step of a run's record since the last checkpoint: its key, and whether its result is there."""

    key: str
    kind: str
    has_result: bool


class ChildFact(Wire):
    """A process that a run started, and how it ended."""

    number: int
    kind: str
    code: Maybe[int] = None
    signal: Maybe[int] = None
    cause: Maybe[str] = None


class RunFact(Wire):
    """A run as its record has it, without what it was asked and what it said."""

    run_id: str
    mode: str
    state: str
    started_at: str
    lives: int
    stop_at: Maybe[str] = None
    cancel_at: Maybe[str] = None
    finished_at: Maybe[str] = None
    outcome: Maybe[str] = None
    steps: Items[StepFact]
    children: Items[ChildFact]


class EventFact(Wire):
    """An event without its content."""

    seq: Count
    method: str
    kind: Maybe[str] = None
    run_id: Maybe[str] = None


class DumpResult(Wire):
    """Everything. Made by the daemon, or without one: then there is no `status`, and `tasks` and `threads` are empty.

    `stacks` is what the daemon wrote on SIGUSR1 when its event loop could not. `environment` is names alone.
    """

    version: Exactly[Literal[1]] = 1
    made_at: str
    daemon_version: str
    python: str
    platform: str
    status: Maybe[StatusResult] = None
    tasks: Items[TaskStack]
    threads: Items[ThreadStack]
    stacks: Maybe[str] = None
    settings: JsonObject
    environment: Items[str]
    files: Items[FileFact]
    runs: Items[RunFact]
    events: Items[EventFact]
    log: Items[JsonObject]
    notes: Items[str]

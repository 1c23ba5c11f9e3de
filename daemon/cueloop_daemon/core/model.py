"""The values that the core decides over. Frozen; made by `store`, swapped whole by `workspace`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from cueloop_protocol.documents.config import Config
from cueloop_protocol.documents.controls import ExecutionControls
from cueloop_protocol.documents.decision import Decision
from cueloop_protocol.documents.session import Session
from cueloop_protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class Unusable:
    """A document that cannot be used; what the caller is told instead of an answer that needs it.

    `code` is one of the closed error codes of the contract (section 7); `path` is the file as people see it.
    """

    code: str
    message: str
    detail: str | None
    path: str


# What the session file turned out to be. Each carries only what exists in that state.
# `etag` names the exact bytes (or, unread, the stat) a later answer or `session.clear` refers to.


@dataclass(frozen=True, slots=True)
class SessionMissing:
    """There is no session file: no interrupted run."""


@dataclass(frozen=True, slots=True)
class SessionLoaded:
    """A session that could be read; whether it is valid, stale or timed out is decided against queue and clock."""

    session: Session
    etag: str


@dataclass(frozen=True, slots=True)
class SessionCorrupt:
    """The bytes are no session; `detail` is one sentence for people that names the key or the place."""

    detail: str
    etag: str


@dataclass(frozen=True, slots=True)
class SessionTooLarge:
    """Over 1 MiB, refused unread."""

    size: int
    etag: str


@dataclass(frozen=True, slots=True)
class SessionTooNew:
    """Written by a newer version of the tool; left alone."""

    version: int
    etag: str


@dataclass(frozen=True, slots=True)
class SessionUnreadable:
    """Access, not content: no permission, an I/O error, a link, a folder, a FIFO. Never touched."""

    detail: str


SessionFile = SessionMissing | SessionLoaded | SessionCorrupt | SessionTooLarge | SessionTooNew | SessionUnreadable


class TaskRow(NamedTuple):
    """What decisions and runnability need of a task; plain data, cheap to carry between processes."""

    id: str
    status: str
    kind: str
    title: str
    depends_on: tuple[str, ...]
    scheduled_start: str | None


@dataclass(frozen=True, slots=True)
class QueueFile:
    """A queue or done file that parsed. `rendered` is the JSON array of its tasks as they are printed (contract section 8)."""

    rows: tuple[TaskRow, ...]
    index: Mapping[str, int]
    """Trimmed task id → position of its first row."""
    rendered: bytes


@dataclass(frozen=True, slots=True)
class QueueMissing:
    """The queue or done file does not exist."""

    path: str


@dataclass(frozen=True, slots=True)
class QueueLock:
    """The queue lock held by somebody (contract section 8)."""

    label: str | None
    pid: int | None
    started_at: str | None
    live: bool


class ShimProcess(NamedTuple):
    """The process that carries a run; a pid means something only together with its start time and the boot."""

    pid: int
    start_time: str
    boot_id: str


@dataclass(frozen=True, slots=True)
class ActiveRun:
    """The run that is under way here; `decision` is the one it started with. `shim` is None until it is up."""

    run_id: str
    mode: str
    task_id: str | None
    phase: str | None
    state: str
    started_at: str
    decision: Decision | None
    shim: ShimProcess | None = None


class OwedTask(NamedTuple):
    """A task whose work was accepted and whose completion is not finished. `session_etag`: of the session that it left."""

    task_id: str
    session_etag: str | None


@dataclass(frozen=True, slots=True)
class Paths:
    """The paths that documents print."""

    repo_root: str
    queue_path: str
    done_path: str
    project_config_path: str
    global_config_path: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that an answer depends on besides the request and the clock, for one caller's configuration."""

    paths: Paths
    trusted: bool
    config: Config | Unusable
    controls: ExecutionControls
    session: SessionFile
    queue: QueueFile | QueueMissing | Unusable
    done: QueueFile | QueueMissing | Unusable
    lock: QueueLock | None
    active_run: ActiveRun | None
    settling: bool
    """The session file was caught half-written and may be whole in a moment."""
    dirty: bool
    dirty_checked_at: datetime | None
    revision: int
    owed: tuple[OwedTask, ...] = ()
    """What the next start of any run settles before it decides."""

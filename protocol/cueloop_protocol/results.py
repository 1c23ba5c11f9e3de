"""The results of every method but `run.*`. What is not there is left out, never null, except where a document says otherwise.

`revision` counts the states of the repository that this daemon has seen; an answer with a lower one is older. `observed_at` is
the UTC time at which the files were looked at.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, PlainSerializer, model_validator
from pydantic_core import PydanticCustomError

from cueloop_protocol.base import Items, JsonObject, Maybe, Wire
from cueloop_protocol.documents.decision import Decision
from cueloop_protocol.documents.error import ErrorDocument
from cueloop_protocol.documents.overview import OverviewDocument, RunnabilitySummary
from cueloop_protocol.documents.resolve import DocumentPaths, ResolveDocument
from cueloop_protocol.documents.session import Session
from cueloop_protocol.metrics import Metrics
from cueloop_protocol.shapes import ActiveRunState, Choice, Count, CursorText, Origin, Question, QueueLockState


class Nothing(Wire):
    """Done; there is nothing to say."""


class Observed(Wire):
    """When and of which state the answer is."""

    revision: Count
    observed_at: str


class Standing(Observed):
    """What stands beside a document: what else is true of the repository at that moment."""

    session_etag: Maybe[str] = None
    active_run: Maybe[ActiveRunState] = None
    queue_lock: Maybe[QueueLockState] = None
    dirty_checked_at: Maybe[str] = None
    settling: bool


class HelloResult(Observed):
    """Who the daemon is. `protocol` is the version both sides now speak; `capabilities` may hold words a client does not know.

    `pid`, `start_time` and `boot_id` together are its process: a number alone may be another one's by now. The kernel's word on
    the peer of the connection is no substitute: it names who called `listen`.
    """

    protocol: Annotated[int, Field(ge=1)]
    daemon_version: str
    instance: str
    pid: int
    repo_root: str
    paths: DocumentPaths
    documents: dict[str, int]
    capabilities: Items[str]
    start_time: Maybe[str] = None
    boot_id: Maybe[str] = None
    active_run: Maybe[ActiveRunState] = None


class ResolveResult(Standing):
    """The config-resolve document, version 5."""

    document: ResolveDocument


class OverviewResult(Standing):
    """The workspace overview, version 1: queue and configuration of one moment."""

    document: OverviewDocument


SessionState = Literal["missing", "loaded", "corrupt", "too_large", "too_new", "unreadable"]
_FIELDS_OF: dict[SessionState, frozenset[str]] = {
    "missing": frozenset(),
    "loaded": frozenset({"session", "etag"}),
    "corrupt": frozenset({"etag", "detail"}),
    "too_large": frozenset({"etag", "detail"}),
    "too_new": frozenset({"etag", "detail"}),
    "unreadable": frozenset({"detail"}),
}


def _printed_session(session: Session) -> dict[str, object]:
    return session.model_dump(mode="json", exclude_none=True)


PrintedSession = Annotated[Session, PlainSerializer(_printed_session)]
"""A session as its file has it: absent fields left out."""


class SessionGetResult(Observed):
    """What the session file is. `etag` names its bytes; `detail` says why it is no session; `age_seconds` is left out if unknown.

    `decision` is what a run with `--resume` would do now; `error`, in its place, names the file that keeps the next run from
    starting. Under `active_run` the session is that run's, and `decision` the one it started with. Under a live `queue_lock` of
    a run the session is another tool's, and there is no decision.
    """

    state: SessionState
    path: str
    session: Maybe[PrintedSession] = None
    age_seconds: Maybe[Count] = None
    etag: Maybe[str] = None
    detail: Maybe[str] = None
    decision: Maybe[Decision] = None
    error: Maybe[ErrorDocument] = None
    active_run: Maybe[ActiveRunState] = None
    queue_lock: Maybe[QueueLockState] = None
    settling: bool

    @model_validator(mode="after")
    def _only_what_exists(self) -> SessionGetResult:
        given = {name for name in ("session", "etag", "detail") if getattr(self, name) is not None}
        if given != _FIELDS_OF[self.state] or (self.age_seconds is not None and self.state != "loaded"):
            raise PydanticCustomError("session_state", "session, etag, detail and age_seconds do not fit the state")
        if self.decision is not None and self.error is not None:
            raise PydanticCustomError("session_decision", "there is a decision or an error that prevents it, not both")
        return self


class SessionClearResult(Observed):
    """The session is abandoned; its bytes are in `history` (a path)."""

    history: str
    task_id: Maybe[str] = None


class PreviewResult(Observed):
    """The decision, if there is one to make; `choices` where a person may choose, with the etag to answer for."""

    decision: Maybe[Decision] = None
    choices: Maybe[Items[Choice]] = None
    session_etag: Maybe[str] = None
    settling: bool


class Snapshot(Standing):
    """All that a subscriber needs to begin with. `error` in place of `document` while the configuration cannot be used."""

    document: Maybe[ResolveDocument] = None
    error: Maybe[ErrorDocument] = None
    overview: Maybe[RunnabilitySummary] = None
    questions: Items[Question]

    @model_validator(mode="after")
    def _document_or_error(self) -> Snapshot:
        if (self.document is None) == (self.error is None):
            raise PydanticCustomError("snapshot_document", "a snapshot has a document or the error that prevents it")
        return self


class SubscribeResult(Wire):
    """The stream starts after `cursor`; what lies at or before it is in the snapshot."""

    subscription: str
    cursor: CursorText
    snapshot: Snapshot


class UnsubscribeResult(Wire):
    """`removed` is false if there was no such subscription on this connection."""

    removed: bool


class WatcherStatus(Wire):
    """How changes are noticed. `degraded`: slower than it should be, for `reason`, which names the remedy."""

    backend: Literal["inotify", "watchfiles", "polling"]
    degraded: bool
    reason: Maybe[str] = None


class EventLogStatus(Wire):
    """The event log. `degraded`: events are not kept, for `reason`.

    `first_seq` is the first event that can still be told; one more than `last_seq` where there is none.
    """

    epoch: str
    first_seq: Count
    last_seq: Count
    bytes: Count
    degraded: bool
    reason: Maybe[str] = None


class DaemonPaths(Wire):
    """Where the daemon's own files are."""

    repo_root: str
    folder: str
    socket: str
    log: str


class StatusResult(Observed):
    """The daemon's health. `counters` only grow, and may gain names; sizes are bytes, `uptime_seconds` does not count sleep.

    `metrics` is left out by daemons that do not measure yet. `origin`: who started it, a client (`demand`), a person (`hand`) or a
    service manager, whose socket outlives the daemon.
    """

    pid: int
    daemon_version: str
    instance: str
    protocol: Annotated[int, Field(ge=1)]
    state: Literal["serving", "draining"]
    started_at: str
    uptime_seconds: Annotated[float, Field(ge=0)]
    connections: Count
    subscribers: Count
    snapshots: Count
    memory_bytes: Count
    watcher: WatcherStatus
    events: EventLogStatus
    paths: DaemonPaths
    counters: dict[str, Count]
    metrics: Maybe[Metrics] = None
    origin: Maybe[Origin] = None
    start_time: Maybe[str] = None
    boot_id: Maybe[str] = None
    active_run: Maybe[ActiveRunState] = None


class ShutdownResult(Wire):
    """The daemon is draining; it is gone when the process `pid` is."""

    pid: int
    instance: str
    runs_left: Items[str]
    start_time: Maybe[str] = None
    boot_id: Maybe[str] = None


class HandoverResult(Wire):
    """The daemon hands over: it calls the successor's socket next. Its process ends within `leaves_within` seconds after that."""

    pid: int
    start_time: str
    boot_id: str
    instance: str
    version: str
    leaves_within: Annotated[float, Field(gt=0)]
    runs_left: Items[str]


class DiscoverResult(Wire):
    """An OpenRPC document."""

    model_config = ConfigDict(extra="allow")

    openrpc: str
    info: JsonObject
    methods: Items[JsonObject]
    components: JsonObject

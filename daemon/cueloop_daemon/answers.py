"""The answers of the reading methods: a Snapshot, a moment and parameters in, a result out. With or without a daemon."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import assert_never

from pydantic_core import to_json

from cueloop_daemon.core.decide import decide, outcome
from cueloop_daemon.core.model import (
    ActiveRun,
    QueueFile,
    QueueLock,
    QueueMissing,
    SessionCorrupt,
    SessionFile,
    SessionLoaded,
    SessionMissing,
    SessionTooLarge,
    SessionTooNew,
    SessionUnreadable,
    Snapshot,
    Unusable,
)
from cueloop_daemon.core.overview import missing_queue, overview_document, queue_report
from cueloop_daemon.core.request import PREVIEW, request_of
from cueloop_daemon.core.resolve import resolve_document
from cueloop_daemon.core.stamps import Age, age_of, format_stamp, parse_stamp
from cueloop_protocol import codes
from cueloop_protocol.base import to_json_bytes
from cueloop_protocol.documents.config import Config
from cueloop_protocol.documents.decision import Decision
from cueloop_protocol.documents.resolve import ResolveDocument
from cueloop_protocol.documents.session import Session
from cueloop_protocol.params import RunRequest
from cueloop_protocol.results import PreviewResult, SessionGetResult, Standing
from cueloop_protocol.results import Snapshot as SnapshotResult
from cueloop_protocol.shapes import ActiveRunState, Question, QueueLockState

_RUN_LABELS = ("run one", "run loop")
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)
"""Stands in for the moment of an answer that is kept without one."""


def config_resolve(facts: Snapshot, now: datetime, *, task_id: str | None, resume: bool) -> bytes:
    """The result of `config.resolve`, without `observed_at`. Raises RpcError where a document that it needs cannot be used."""
    document = resolve_document(usable(facts), preview(facts, now, task_id=task_id, resume=resume))
    return _beside(facts, b'{"document":' + to_json_bytes(document))


def workspace_overview(facts: Snapshot, now: datetime, *, task_id: str | None, resume: bool) -> bytes:
    """The result of `workspace.overview`, without `observed_at`. Raises RpcError as above, and for the done file."""
    document = overview_document(facts, preview(facts, now, task_id=task_id, resume=resume), now)
    if isinstance(document, Unusable):
        raise unusable(document)
    return _beside(facts, b'{"document":' + document)


def resume_preview(facts: Snapshot, now: datetime, asked: RunRequest) -> PreviewResult:
    """The result of `resume.preview`."""
    facts = usable(facts)
    found = outcome(facts, request_of(asked), now)
    if found.answer_is_void:
        raise codes.confirmation_stale(etag_of(facts), None if found.decision is None else found.decision.model_dump(mode="json"))
    return PreviewResult(
        decision=found.decision,
        choices=None if found.question is None else found.question.choices,
        session_etag=etag_of(facts),
        settling=facts.settling,
        revision=facts.revision,
        observed_at=format_stamp(now),
    )


def session_get(facts: Snapshot, now: datetime, path: str) -> SessionGetResult:
    """The result of `session.get`. Where config or queue cannot be used, that is told beside the session, which is still shown."""
    decision = preview(facts, now, task_id=None, resume=True)
    return SessionGetResult.model_validate(
        {
            "revision": facts.revision,
            "observed_at": format_stamp(now),
            "settling": facts.settling,
            "path": path,
            "decision": decision,
            "error": None if decision is not None else _obstacle(facts),
            "active_run": active_run_state(facts.active_run),
            "queue_lock": queue_lock_state(facts.lock),
            **_session_fields(facts.session, decision, now),
        }
    )


def _obstacle(facts: Snapshot) -> dict[str, object] | None:
    """The error document of the first file without which no run can start; None if there is none."""
    for document in (facts.config, facts.queue):
        found = missing_queue(document) if isinstance(document, QueueMissing) else document
        if isinstance(found, Unusable):
            return unusable(found).document
    return None


def _session_fields(file: SessionFile, decision: Decision | None, now: datetime) -> dict[str, object]:
    match file:
        case SessionMissing():
            return {"state": "missing"}
        case SessionLoaded(session, etag):
            return {"state": "loaded", "session": session, "etag": etag, "age_seconds": _age_seconds(session, now)}
        case SessionCorrupt(detail, etag):
            return {"state": "corrupt", "detail": detail, "etag": etag}
        case SessionTooLarge(size, etag):
            detail = f"It has {size} bytes, more than 1 MiB." if decision is None else decision.detail
            return {"state": "too_large", "detail": detail, "etag": etag}
        case SessionTooNew(version, etag):
            detail = f"It has version {version}, which is newer than this program." if decision is None else decision.detail
            return {"state": "too_new", "detail": detail, "etag": etag}
        case SessionUnreadable(detail):
            return {"state": "unreadable", "detail": detail}
        case other:
            assert_never(other)


def _age_seconds(session: Session, now: datetime) -> int | None:
    """The age as the decision sees it, so None as well for a time stamp too far ahead of the clock."""
    moment = parse_stamp(session.last_updated_at)
    if moment is None or not isinstance(age_of(session.last_updated_at, now), Age):
        return None
    return max(int((now - moment).total_seconds()), 0)


def subscription_snapshot(facts: Snapshot, now: datetime, questions: tuple[Question, ...]) -> SnapshotResult:
    """What a subscriber begins with: the document, or why there is none, and what stands beside it."""
    document: ResolveDocument | None = None
    error = None
    try:
        document = resolve_document(usable(facts), preview(facts, now, task_id=None, resume=True))
    except codes.RpcError as exc:
        error = exc.document
    beside = standing(facts, now)
    return SnapshotResult.model_validate(
        {
            **beside.model_dump(),
            "document": document,
            "error": error,
            "overview": runnability_counts(facts, now),
            "questions": questions,
        }
    )


def preview(facts: Snapshot, now: datetime, *, task_id: str | None, resume: bool) -> Decision | None:
    """The decision that a preview shows. None while another tool runs: its session is not an interrupted one."""
    if facts.active_run is None and is_run_lock(facts.lock):
        return None
    request = PREVIEW if task_id is None and resume else replace(PREVIEW, task_id=task_id, resume=resume)
    return decide(facts, request, now)


def usable(facts: Snapshot) -> Snapshot:
    """The snapshot itself, if configuration and queue can be used. Raises RpcError `document_unusable` otherwise."""
    for document in (facts.config, facts.queue):
        if isinstance(document, Unusable):
            raise unusable(document)
    return facts


def unusable(document: Unusable) -> codes.RpcError:
    """A document that cannot be used, as an answer."""
    return codes.document_unusable(document.code, document.message, document.detail)


def is_run_lock(lock: QueueLock | None) -> bool:
    """Whether this is the queue lock of a run that is under way in another tool."""
    return lock is not None and lock.live and lock.label in _RUN_LABELS


def etag_of(facts: Snapshot) -> str | None:
    """The etag of the session file, None where there is none or it cannot be looked into."""
    return getattr(facts.session, "etag", None)


def standing(facts: Snapshot, now: datetime) -> Standing:
    """What stands beside every document."""
    return Standing(
        revision=facts.revision,
        observed_at=format_stamp(now),
        session_etag=etag_of(facts),
        active_run=active_run_state(facts.active_run),
        queue_lock=queue_lock_state(facts.lock),
        dirty_checked_at=None if facts.dirty_checked_at is None else format_stamp(facts.dirty_checked_at),
        settling=facts.settling,
    )


def active_run_state(run: ActiveRun | None) -> ActiveRunState | None:
    """The active run as it is told."""
    if run is None:
        return None
    return ActiveRunState.model_validate(
        {
            "run_id": run.run_id,
            "mode": run.mode,
            "task_id": run.task_id,
            "phase": run.phase,
            "state": run.state,
            "started_at": run.started_at,
            "decision": run.decision,
            "shim": None if run.shim is None else run.shim._asdict(),
        }
    )


def queue_lock_state(lock: QueueLock | None) -> QueueLockState | None:
    """The queue lock as it is told."""
    if lock is None:
        return None
    return QueueLockState(label=lock.label, pid=lock.pid, started_at=lock.started_at, live=lock.live)


def with_moment(body: bytes, now: datetime) -> bytes:
    """A result that was kept as bytes, with the moment of this answer."""
    return b'%b,"observed_at":"%b"}' % (body[:-1], format_stamp(now).encode())


def _beside(facts: Snapshot, head: bytes) -> bytes:
    fields = standing(facts, _NEVER).model_dump(mode="json", exclude={"observed_at"})
    return head + b"," + to_json(fields)[1:]


def runnability_counts(facts: Snapshot, now: datetime) -> object:
    """The overview's summary as JSON values; None while configuration or queue cannot be used."""
    if not isinstance(facts.queue, QueueFile) or not isinstance(facts.config, Config):
        return None
    done = facts.done if isinstance(facts.done, QueueFile) else None
    return queue_report(facts.queue, done, facts.config, now).document["summary"]

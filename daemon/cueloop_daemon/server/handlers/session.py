"""`session.clear`: a person abandons the session. The only method of this version that changes a file that others share."""

from __future__ import annotations

from typing import Any

import anyio.to_thread

from cueloop_daemon import answers
from cueloop_daemon.core.model import QueueLock, SessionMissing, SessionUnreadable
from cueloop_daemon.core.stamps import format_stamp
from cueloop_daemon.server.requests import Call, Reply, Result, When
from cueloop_daemon.services import Services
from cueloop_daemon.store.not_writable import NotWritable
from cueloop_daemon.store.outcomes import Conflict, Missing, Removed
from cueloop_daemon.workspace.loading import queue_lock
from cueloop_protocol import codes
from cueloop_protocol.params import SessionClearParams
from cueloop_protocol.results import SessionClearResult
from cueloop_protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class ClearSession:
    """Moves the session to the history, if it still is the one that `etag` names."""

    etag: str

    @property
    def when(self) -> When:
        return When.WRITE

    async def perform(self, call: Call[Any]) -> Result:
        services: Services = call.services
        async with services.writing:
            refuse_under_a_run(services, queue_lock(services.root))
            try:
                found = await anyio.to_thread.run_sync(services.sessions.clear, self.etag)
            except NotWritable as exc:
                raise not_writable(exc) from exc
        services.look_again()
        if isinstance(found, Missing):
            raise codes.conflict("There is no session any more.", detail="Somebody removed it in the meantime; nothing was done.")
        if isinstance(found, Conflict):
            for entry in found.kept:
                services.warn(f"The session was changed while it was being cleared; what was there is kept as {entry.path}.")
            raise codes.conflict(
                "The session changed after you looked at it.",
                detail="Nothing was done. Look at it again (`cueloop session show`).",
                session_etag=found.found,
            )
        assert isinstance(found, Removed)
        view = services.workspace.view(None)
        await services.workspace.refresh(view)
        return SessionClearResult(
            history=found.entry.path,
            task_id=found.entry.note.task_id if found.entry.note is not None else None,
            revision=view.snapshot.revision,
            observed_at=format_stamp(call.now),
        )


def session_clear(call: Call[Services], params: SessionClearParams) -> Reply:
    """Abandon the session; refused where its etag is another, under a run, and for what cannot be read."""
    facts = call.services.workspace.view(None).snapshot
    refuse_under_a_run(call.services, facts.lock)
    match facts.session:
        case SessionMissing():
            raise codes.conflict("There is no session to clear.")
        case SessionUnreadable(detail):
            raise codes.document_unusable(
                "permission_denied", "The session file cannot be looked into, so it is not touched.", detail
            )
        case _:
            return Reply(b"{}", (ClearSession(params.etag),))


def refuse_under_a_run(services: Services, lock: QueueLock | None) -> None:
    """A session that somebody works in is not abandoned: neither by us nor behind another tool's back."""
    if services.workspace.active_run is not None:
        raise codes.run_active(services.workspace.active_run.run_id)
    if lock is not None and answers.is_run_lock(lock):
        raise codes.lock_held(lock.label, lock.pid, lock.started_at)


def not_writable(exc: NotWritable) -> codes.RpcError:
    """A file that could not be changed, as an answer."""
    return codes.not_writable(exc.message, exc.remedy, full=exc.code != "permission_denied")

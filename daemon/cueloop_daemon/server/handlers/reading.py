"""The reading methods: `config.resolve`, `workspace.overview`, `session.get`, `resume.preview`. They change nothing."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol

import anyio.to_thread

from cueloop_daemon import answers
from cueloop_daemon.core.model import Snapshot
from cueloop_daemon.server.requests import Call, Reply
from cueloop_daemon.services import Services
from cueloop_daemon.workspace.loading import session_path
from cueloop_protocol.base import to_json_bytes
from cueloop_protocol.params import PreviewParams, ResolveParams, SessionGetParams
from cueloop_protocol.roots import Root, shown
from cueloop_protocol.shapes import CallerParams

SAME_MOMENT = timedelta(seconds=1)
"""An overview says what time it is; one that is older than this is made anew."""

MANY_TASKS = 500
"""From this many rows the runnability report is made in a worker thread, so that the loop goes on meanwhile."""


class HasCaller(Protocol):
    """Params that say whose configuration is meant."""

    @property
    def caller(self) -> CallerParams | None: ...


async def refresh(call: Call[Services], params: HasCaller) -> None:
    """Bring the caller's view up to date."""
    await call.services.workspace.refresh(call.services.view(params.caller))


def is_current(call: Call[Services], params: HasCaller) -> bool:
    """Whether nothing changed since the caller's view was read: a stat of each input."""
    return call.services.workspace.is_current(call.services.view(params.caller))


async def refresh_exactly(call: Call[Services], params: ResolveParams) -> None:
    """As `refresh`, and ask git if the caller wants to know exactly."""
    await call.services.workspace.refresh(call.services.view(params.caller), exact=params.exact)


def is_current_exactly(call: Call[Services], params: ResolveParams) -> bool:
    """As `is_current`; what git must be asked for is never current."""
    return not params.exact and is_current(call, params)


def config_resolve(call: Call[Services], params: ResolveParams) -> Reply:
    """The config-resolve document with the preview."""
    view, now = call.services.view(params.caller), call.now

    def make(facts: Snapshot) -> bytes:
        return answers.config_resolve(facts, now, task_id=params.task_id, resume=params.resume)

    body = view.answer(("config.resolve", params.task_id, params.resume), now, make)
    call.services.workspace.look_at_dirt_soon(view)
    return Reply(answers.with_moment(body, now))


async def prepare_overview(call: Call[Services], params: ResolveParams) -> None:
    """As `refresh_exactly`; the report over many tasks is made here, off the loop."""
    await refresh_exactly(call, params)
    view, now = call.services.view(params.caller), call.now
    facts = view.snapshot
    if getattr(facts.queue, "rows", ())[MANY_TASKS:]:
        body = await anyio.to_thread.run_sync(_overview, facts, params, now)
        call.services.workspace.hold(view)
        view.keep(_overview_key(params), facts, now, body, SAME_MOMENT)


def is_overview_current(call: Call[Services], params: ResolveParams) -> bool:
    """Whether the answer can be given at once."""
    view = call.services.view(params.caller)
    if not is_current_exactly(call, params):
        return False
    return view.has_answer(_overview_key(params), call.now) or not getattr(view.snapshot.queue, "rows", ())[MANY_TASKS:]


def workspace_overview(call: Call[Services], params: ResolveParams) -> Reply:
    """Queue, runnability and configuration of one moment."""
    view, now = call.services.view(params.caller), call.now
    body = view.answer(_overview_key(params), now, lambda facts: _overview(facts, params, now), SAME_MOMENT)
    return Reply(answers.with_moment(body, now))


def session_get(call: Call[Services], params: SessionGetParams) -> Reply:
    """What the session file is."""
    facts = call.services.view(params.caller).snapshot
    return Reply(to_json_bytes(answers.session_get(facts, call.now, shown_session(call.services.root))))


def resume_preview(call: Call[Services], params: PreviewParams) -> Reply:
    """The decision for one request."""
    facts = call.services.view(params.caller).snapshot
    return Reply(answers.resume_preview(facts, call.now, params.request))


def shown_session(root: Root) -> str:
    """The session file's path as people see it."""
    return shown(session_path(Root(root.path, root.path)))


def _overview_key(params: ResolveParams) -> object:
    return ("workspace.overview", params.task_id, params.resume)


def _overview(facts: Snapshot, params: ResolveParams, now: datetime) -> bytes:
    return answers.workspace_overview(facts, now, task_id=params.task_id, resume=params.resume)

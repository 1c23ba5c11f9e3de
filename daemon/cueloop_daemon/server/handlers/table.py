"""Every method of the protocol with its handler. A test checks it against `cueloop_protocol.methods`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cueloop_daemon.server.handlers import daemon, dump, events, handover, reading, runs, session
from cueloop_daemon.server.requests import Call, Entry
from cueloop_daemon.services import Services
from cueloop_protocol import params


async def _refresh_own(call: Call[Services], _: object) -> None:
    await call.services.workspace.refresh(call.services.view(None))


def _is_own_current(call: Call[Services], _: object) -> bool:
    return call.services.workspace.is_current(call.services.view(None))


async def _refresh_asked(call: Call[Services], asked: params.SubscribeParams) -> None:
    await call.services.workspace.refresh(call.services.view(asked.caller))


TABLE: Mapping[str, Entry[Services, Any]] = {
    "hello": Entry(params.HelloParams, daemon.hello, _refresh_own, _is_own_current),
    "ping": Entry(params.NoParams, daemon.ping),
    "config.resolve": Entry(params.ResolveParams, reading.config_resolve, reading.refresh_exactly, reading.is_current_exactly),
    "workspace.overview": Entry(
        params.ResolveParams, reading.workspace_overview, reading.prepare_overview, reading.is_overview_current
    ),
    "session.get": Entry(params.SessionGetParams, reading.session_get, reading.refresh, reading.is_current),
    "session.clear": Entry(params.SessionClearParams, session.session_clear, _refresh_own, durable=True),
    "resume.preview": Entry(params.PreviewParams, reading.resume_preview, reading.refresh, reading.is_current),
    "run.start": Entry(params.RunStartParams, runs.start, durable=True),
    "run.answer": Entry(params.RunAnswerParams, runs.answer, durable=True),
    "run.stop": Entry(params.RunTargetParams, runs.stop, durable=True),
    "run.cancel": Entry(params.RunTargetParams, runs.cancel, durable=True),
    "run.get": Entry(params.RunGetParams, runs.get),
    "run.list": Entry(params.RunListParams, runs.list_),
    "run.output": Entry(params.RunOutputParams, runs.output),
    "events.subscribe": Entry(params.SubscribeParams, events.subscribe, _refresh_asked),
    "events.unsubscribe": Entry(params.UnsubscribeParams, events.unsubscribe),
    "client.state": Entry(params.ClientStateParams, runs.client_state),
    "daemon.status": Entry(params.NoParams, daemon.status, _refresh_own, _is_own_current),
    "daemon.dump": Entry(params.NoParams, dump.dump),
    "daemon.shutdown": Entry(params.ShutdownParams, daemon.shutdown, durable=True),
    "daemon.handover": Entry(params.HandoverParams, handover.handover, durable=True),
    "rpc.discover": Entry(params.NoParams, daemon.discover),
}

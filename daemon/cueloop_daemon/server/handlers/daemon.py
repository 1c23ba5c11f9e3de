"""`hello`, `ping`, `daemon.status`, `daemon.shutdown`, `rpc.discover`."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

from pydantic_core import to_json

from cueloop_daemon import answers
from cueloop_daemon.core.resolve import document_paths
from cueloop_daemon.core.stamps import format_stamp
from cueloop_daemon.measures import open_descriptors
from cueloop_daemon.memory import resident_bytes
from cueloop_daemon.server.requests import Call, ClientInfo, Reply, When
from cueloop_daemon.services import Services
from cueloop_protocol import codes
from cueloop_protocol.metrics import Metrics
from cueloop_protocol.params import HelloParams, NoParams, ShutdownParams
from cueloop_protocol.results import DaemonPaths, EventLogStatus, HelloResult, ShutdownResult, StatusResult, WatcherStatus
from cueloop_protocol.roots import shown
from cueloop_protocol.shapes import OLDEST_PROTOCOL_VERSION, PROTOCOL_VERSION, ShutdownReason
from cueloop_protocol.values import dataclass

DOCUMENTS = {
    "config_resolve": 5,
    "error": 1,
    "run_event": 3,
    "run_stop": 1,
    "run_summary": 2,
    "workspace_overview": 1,
}
"""The documents that this daemon sends, by the version of each."""

CAPABILITIES = ("events", "preview", "runs", "session")


def ping(call: Call[Services], params: NoParams) -> Reply:
    """Nothing, at once."""
    return Reply(b"{}")


def hello(call: Call[Services], params: HelloParams) -> Reply:
    """Agree on a protocol version, or say which command settles it."""
    services = call.services
    version = min(params.protocol.max, PROTOCOL_VERSION)
    if version < max(params.protocol.min, OLDEST_PROTOCOL_VERSION):
        raise _mismatch(params)
    call.peer.client = ClientInfo(params.client.name, params.client.version)
    facts = services.workspace.view(None).snapshot
    return Reply(
        HelloResult(
            protocol=version,
            daemon_version=services.identity.version,
            instance=services.identity.instance,
            pid=services.identity.pid,
            repo_root=facts.paths.repo_root,
            paths=document_paths(facts.paths),
            documents=DOCUMENTS,
            capabilities=CAPABILITIES,
            start_time=services.identity.start_time or None,
            boot_id=services.identity.boot_id or None,
            active_run=answers.active_run_state(facts.active_run),
            revision=facts.revision,
            observed_at=format_stamp(call.now),
        )
    )


def _mismatch(params: HelloParams) -> codes.RpcError:
    ours = {"min": OLDEST_PROTOCOL_VERSION, "max": PROTOCOL_VERSION}
    theirs = {"min": params.protocol.min, "max": params.protocol.max}
    newer_client = params.protocol.min > PROTOCOL_VERSION
    remedy = "Run `cueloop daemon restart` with the newer cueloop." if newer_client else "Update the client; the daemon is newer."
    return codes.version_mismatch(
        f"The daemon speaks protocol {ours['min']} to {ours['max']}, the client {theirs['min']} to {theirs['max']}.",
        {"daemon": ours, "client": theirs},
        remedy,
    )


def status(call: Call[Services], params: NoParams) -> Reply:
    """State and counters."""
    services = call.services
    identity, hub, watcher = services.identity, services.hub.status, services.watcher()
    view = services.workspace.view(None)
    reason = hub.reason or hub.notice
    return Reply(
        StatusResult(
            pid=identity.pid,
            daemon_version=identity.version,
            instance=identity.instance,
            protocol=PROTOCOL_VERSION,
            state="draining" if services.life.draining else "serving",
            start_time=identity.start_time or None,
            boot_id=identity.boot_id or None,
            started_at=format_stamp(identity.started_at),
            uptime_seconds=max(0.0, round(call.monotonic - identity.started_monotonic, 3)),
            connections=services.connections(),
            subscribers=hub.subscribers,
            snapshots=len(services.workspace.views()),
            memory_bytes=resident_bytes(),
            watcher=WatcherStatus(backend=watcher.backend, degraded=watcher.reason is not None, reason=watcher.reason),
            events=EventLogStatus(
                epoch=hub.epoch,
                first_seq=hub.first_seq,
                last_seq=hub.last_seq,
                bytes=hub.bytes,
                degraded=hub.reason is not None,
                reason=reason,
            ),
            paths=DaemonPaths(
                repo_root=shown(services.root.path), folder=services.folder, socket=services.socket, log=services.log
            ),
            counters={**services.counters(), "lagging": hub.lagging, "gaps_sent": hub.gaps_sent},
            metrics=_metrics(services),
            origin=identity.origin,
            active_run=answers.active_run_state(view.snapshot.active_run),
            revision=view.snapshot.revision,
            observed_at=format_stamp(call.now),
        )
    )


def _metrics(services: Services) -> Metrics:
    hub, measures = services.hub.status, services.measures
    return Metrics(
        requests=dict(measures.traffic.requests),
        errors=dict(measures.traffic.errors),
        latency=measures.traffic.latency(),
        events_published=hub.published,
        commits=hub.commits,
        watcher_hints=measures.hints,
        snapshot_refreshes=services.workspace.refreshes,
        runs=dict(services.engine.outcomes),
        runs_adopted=services.engine.adopted,
        open_descriptors=open_descriptors(),
        loop_lag_max_seconds=round(measures.loop_lag_max, 6),
    )


@dataclass(frozen=True, slots=True)
class Leave:
    """Begin to leave, once the answer is out."""

    reason: ShutdownReason

    @property
    def when(self) -> When:
        return When.AFTER_REPLY

    async def perform(self, call: Call[Any]) -> None:
        services: Services = call.services
        services.life.leave(self.reason)


@dataclass(frozen=True, slots=True)
class CancelRun:
    """End the active run before the answer says that the daemon goes."""

    run_id: str

    @property
    def when(self) -> When:
        return When.WRITE

    async def perform(self, call: Call[Any]) -> None:
        services: Services = call.services
        await services.engine.cancel(self.run_id)


def shutdown(call: Call[Services], params: ShutdownParams) -> Reply:
    """Drain and leave. A run that is active is refused, left or cancelled as `runs` says."""
    services = call.services
    active = services.engine.active_id
    if active is not None and params.runs == "refuse":
        raise codes.run_active(active, stays=True)
    reason: Literal["stopped", "upgrade"] = params.reason
    left = (active,) if active is not None and params.runs == "leave" else ()
    who = services.identity
    result = ShutdownResult(
        pid=who.pid, instance=who.instance, runs_left=left, start_time=who.start_time or None, boot_id=who.boot_id or None
    )
    cancelled = (CancelRun(active),) if active is not None and params.runs == "cancel" else ()
    return Reply(result, (*cancelled, Leave(reason)))


def discover(call: Call[Services], params: NoParams) -> Reply:
    """The OpenRPC document of this daemon."""
    return Reply(_openrpc(call.services.identity.version))


@cache
def _openrpc(version: str) -> bytes:
    from cueloop_protocol.openrpc import openrpc_document  # few ask, so no start waits for it

    return to_json(openrpc_document(version))

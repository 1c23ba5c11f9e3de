"""`daemon.handover`: a successor asks for socket and locks. Who may have them is judged here; the rest is `takeover.succession`."""

from __future__ import annotations

from typing import Any

from cueloop_daemon.server.handlers.daemon import CancelRun
from cueloop_daemon.server.requests import Call, Reply, When
from cueloop_daemon.services import Services
from cueloop_daemon.takeover.asking import Successor
from cueloop_daemon.takeover.bequest import Heir
from cueloop_daemon.takeover.judging import refusal
from cueloop_daemon.takeover.ours import this_version
from cueloop_daemon.takeover.probes import reached
from cueloop_daemon.takeover.succession import LEAVES_WITHIN, Wanted
from cueloop_protocol.codes import CONFLICT, RpcError
from cueloop_protocol.params import HandoverParams
from cueloop_protocol.results import HandoverResult
from cueloop_protocol.values import dataclass

_BY_MANAGER = "Restart it there: systemctl --user restart, or launchctl kickstart -k."


@dataclass(frozen=True, slots=True)
class HandOver:
    """Begin to hand over, once the answer is out."""

    wanted: Wanted

    @property
    def when(self) -> When:
        return When.AFTER_REPLY

    async def perform(self, call: Call[Any]) -> None:
        services: Services = call.services
        services.life.hand_over(self.wanted)


def handover(call: Call[Services], params: HandoverParams) -> Reply:
    """Give the place away, unless the successor could not go on with what is here. A run is refused, left or cancelled."""
    reached("asked")
    services = call.services
    if (heir := services.life.heir) is not None:
        raise RpcError(CONFLICT, f"Process {heir} is taking over already.", heir={"pid": heir})
    if services.is_managed:
        raise RpcError(
            CONFLICT, "The socket belongs to a service manager, which alone starts the daemon.", detail=_BY_MANAGER, managed=True
        )
    protocol = params.protocol
    theirs = Successor(
        params.version, protocol.min, protocol.max, params.events_schema, params.runs_schema, params.record, params.runs
    )
    active = services.engine.active_id
    if (refused := refusal(this_version(), theirs, active)) is not None:
        raise refused
    who = services.identity
    result = HandoverResult(
        pid=who.pid,
        start_time=who.start_time,
        boot_id=who.boot_id,
        instance=who.instance,
        version=who.version,
        leaves_within=LEAVES_WITHIN,
        runs_left=(active,) if active is not None and params.runs == "leave" else (),
    )
    cancelled = (CancelRun(active),) if active is not None and params.runs == "cancel" else ()
    heir_place = Heir(params.heir.pid, params.heir.socket, params.heir.token)
    return Reply(result, (*cancelled, HandOver(Wanted(heir_place, params.runs))))

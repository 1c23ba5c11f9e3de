"""Methods of the protocol that this version does not have yet, and `client.state`."""

from __future__ import annotations

from collections.abc import Callable

from cueloop_protocol import codes
from cueloop_protocol.base import Wire
from cueloop_protocol.params import ClientStateParams

from cueloop_daemon.server.requests import Call, Reply
from cueloop_daemon.services import Services


def planned(method: str) -> Callable[[Call[Services], Wire], Reply]:
    """A handler that says that `method` is not in this version."""

    def answer(call: Call[Services], params: Wire) -> Reply:
        raise codes.not_in_this_version(method)

    return answer


def client_state(call: Call[Services], params: ClientStateParams) -> Reply:
    """Whether a window of this client is in front; forgotten when it goes."""
    windows, peer = call.services.active_windows, call.peer
    if not params.active_window:
        windows.discard(peer.id)
    elif peer.id not in windows:
        windows.add(peer.id)
        peer.farewells.append(lambda: windows.discard(peer.id))
    return Reply(b"{}")

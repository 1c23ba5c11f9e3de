"""The daemon that runs while its service is installed. Standard library only."""

from __future__ import annotations

from cueloop_client.exchange import ask
from cueloop_client.failures import BadAnswer, Failure, Lost
from cueloop_client.reach import answered_process, located_process, reach
from cueloop_client.shapes import text
from cueloop_client.waiting import await_end
from cueloop_protocol.codes import SHUTTING_DOWN, RpcError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cueloop_client.world import World
    from cueloop_protocol.roots import Root

LEAVE_SECONDS = 25.0
ANSWER_SECONDS = 10.0


def make_room(root: Root, world: World) -> int | None:
    """Have no daemon run that a client started: it would keep the socket's name from the manager. Its runs go on.

    Gives the pid of the one that left; None if there was none, or it is the manager's own. Raises Failure if it does not leave.
    """
    deadline = world.deadline(LEAVE_SECONDS)
    sock = reach(root, world, deadline, any_version=True, may_wake=False)
    if sock is None:
        return None
    process = located_process(root, world)  # an older daemon does not name itself whole
    with sock:
        try:
            status = ask(sock, "daemon.status", {}, deadline)
            process = answered_process(status) or process
            if text(status.get("origin")) in ("systemd", "launchd"):
                return None
            ask(sock, "daemon.shutdown", {"runs": "leave", "reason": "upgrade"}, deadline)
        except Lost:
            pass  # it left before its answer was out
        except RpcError as exc:
            if exc.code != SHUTTING_DOWN:
                raise Failure(
                    "The daemon that runs here does not make room for its service.",
                    f"It says: {exc.message} End it, then call this again: cueloop daemon stop",
                ) from exc
    if process is None:
        return None
    await_end(process, deadline)
    return process.pid


def first_answer(root: Root, world: World) -> dict[str, Any] | None:
    """What the daemon says of itself, which the manager starts for this very call; None if nobody listens. Raises Failure."""
    deadline = world.deadline(LEAVE_SECONDS)
    sock = reach(root, world, deadline, any_version=True)
    if sock is None:
        return None
    with sock:
        status = ask(sock, "daemon.status", {}, deadline)
    if not isinstance(status, dict):
        raise BadAnswer("The daemon's answer is no object.")
    return status

"""What the doctor is told: how the daemon answered, and who is calling. Standard library only; nothing is started."""

from __future__ import annotations

import os

from cueloop_client.again import until_served
from cueloop_client.exchange import ask
from cueloop_client.failures import BadAnswer, Failure, Lost, Silent
from cueloop_client.passing import tool_path
from cueloop_client.reach import check_version, reach
from cueloop_protocol.place import read_locator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cueloop_client.context import Context
    from cueloop_client.world import World
    from cueloop_protocol.roots import Root

SECONDS = 3.0
"""How long the daemon may take to say how it is; a healthy one takes a millisecond."""


def what_is_known(context: Context, root: Root) -> dict[str, Any]:
    """The facts that `cueloop_daemon.doctor` takes as `asked`."""
    from cueloop_protocol.version import __version__

    world = context.world
    seconds = context.seconds if context.values.has("timeout") else SECONDS
    met = {"state": "not_asked"} if context.without_daemon else daemon_met(root, world, seconds)
    return {
        **met,
        "program": world.program,
        "version": __version__,
        "rust_tool": tool_path(world.environ, world.program, os.getpid()),
        "with_agents": not context.values.has("no-versions"),
        "service": service_troubles(root, world),
    }


def service_troubles(root: Root, world: World) -> list[dict[str, str]]:
    """What keeps the repository's service, if it has one, from starting this daemon."""
    from cueloop_client.service.looking import troubles
    from cueloop_client.service.platform import manager_of

    try:
        return [{"unit": unit, "problem": what, "remedy": remedy} for unit, what, remedy in troubles(root, manager_of(world))]
    except Failure as exc:
        return [{"unit": "service", "problem": exc.message, "remedy": exc.detail or "cueloop service status"}]


def daemon_met(root: Root, world: World, seconds: float) -> dict[str, Any]:
    """How the daemon answers `daemon.status` within the time: a stopped or broken one is an answer, too. Raises nothing of ours."""
    from cueloop_protocol.codes import RpcError

    deadline = world.deadline(seconds)

    def attempt() -> object:
        sock = reach(root, world, deadline, any_version=True, may_wake=False)
        if sock is None:
            return None
        with sock:
            check_version(read_locator(root, world.uid))
            return ask(sock, "daemon.status", {}, deadline)

    try:
        status = until_served(root, world, deadline, attempt, may_start=False)
        if status is None:
            return {"state": "none"}
        if isinstance(status, dict):
            return {"state": "running", "status": status}
        return _failed("unusable", BadAnswer("The daemon's answer is not an object."))
    except Silent as exc:
        return {**_failed("silent", exc), "seconds": seconds}
    except Lost:
        return {"state": "none"}
    except RpcError as exc:
        return {"state": "unusable", "message": f"The daemon answers with an error: {exc.message}"}
    except Failure as exc:
        return _failed("misfit" if exc.word == "version_mismatch" else "unusable", exc)


def _failed(state: str, exc: Failure) -> dict[str, Any]:
    return {"state": state, "message": exc.message, "detail": exc.detail or ""}

"""Asking again where a daemon that leaves has done nothing. Standard library only."""

from __future__ import annotations

from cueloop_client.exchange import ask
from cueloop_client.failures import Unsent
from cueloop_client.far import FarRoot
from cueloop_client.reach import Process, answered_process, located_process, reach

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeGuard, TypeVar

    from cueloop_client.world import Deadline, World
    from cueloop_protocol.codes import RpcError
    from cueloop_protocol.roots import Root

    T = TypeVar("T")

PAUSE = 0.05
"""Seconds between two attempts where it is not known which process leaves."""


def until_served(root: Root, world: World, deadline: Deadline, attempt: Callable[[], T], *, may_start: bool = True) -> T:
    """What `attempt` gives. Made again, until the deadline, while it meets a daemon that leaves and has done nothing.

    If that has a successor, its socket is served already; else its end is waited for, once, as the next one can be started only
    then: not without `may_start`. Raises what `attempt` does, and Silent.
    """
    has_waited = False
    while True:
        try:
            return attempt()
        except Unsent:
            if deadline.is_over():
                raise
        except Exception as exc:
            if not is_leaving(exc) or deadline.is_over():
                raise
            if exc.data.get("reason") != "replaced":
                if not may_start or has_waited:
                    raise
                has_waited = True
                await_leaving(exc, root, world, deadline)


def ask_running(root: Root, world: World, deadline: Deadline, method: str, *, any_version: bool = False) -> Any:
    """The result of a call to the daemon that runs, or to its successor; None if none runs. None is started, or woken.

    Raises what `reach`, `ask` and `until_served` do.
    """

    def attempt() -> Any:
        sock = reach(root, world, deadline, any_version=any_version, may_wake=False)
        if sock is None:
            return None
        with sock:
            return ask(sock, method, {}, deadline)

    return until_served(root, world, deadline, attempt, may_start=False)


def is_leaving(exc: Exception) -> TypeGuard[RpcError]:
    """Whether it is the answer of a daemon that leaves."""
    from cueloop_protocol.codes import SHUTTING_DOWN, RpcError

    return isinstance(exc, RpcError) and exc.code == SHUTTING_DOWN


def await_leaving(exc: RpcError, root: Root, world: World, deadline: Deadline) -> None:
    """Return when the daemon that answered so is gone, as far as it can be known. Raises Silent. Blocking."""
    process = None if isinstance(root, FarRoot) else leaving_process(exc) or located_process(root, world)
    if process is None:
        from threading import Event

        Event().wait(PAUSE)
        return
    from cueloop_client.waiting import await_end

    await_end(process, deadline)


def leaving_process(exc: RpcError) -> Process | None:
    """The process that leaves, if the daemon said so."""
    return answered_process(exc.data.get("process"))

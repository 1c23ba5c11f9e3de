"""The answer to a call: from the daemon, which is started if need be, or from this process. Standard library only until then."""

from __future__ import annotations

from cueloop_client.again import until_served
from cueloop_client.calling import with_caller
from cueloop_client.exchange import ask
from cueloop_client.failures import Failure, Lost, NoDaemon
from cueloop_client.far import FarRoot
from cueloop_client.reach import may_have_daemon, reach_or_upgrade, why_no_daemon

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping
    from typing import Any

    from cueloop_client.context import Context
    from cueloop_client.world import Deadline
    from cueloop_protocol.roots import Root


def read(context: Context, method: str, params: Mapping[str, Any], *, may_start: bool = True) -> Any:
    """The result of a reading call: from the daemon or, where there may be none or none is to be started, from this process.

    Raises RpcError and Failure.
    """
    root = context.root()
    asked = with_caller(context.world.caller(), method, params)
    if context.without_daemon or not may_have_daemon(root):
        return answer_here(context, root, method, asked)
    try:
        return _from_daemon(context, root, method, asked, may_start)
    except Lost:  # it left just then; to read twice harms nobody
        return _from_daemon(context, root, method, asked, may_start)
    except NoDaemon:
        if isinstance(root, FarRoot):
            raise
        return answer_here(context, root, method, asked)


def change(context: Context, method: str, params: Mapping[str, Any]) -> Any:
    """The result of a call that changes something: by the daemon alone, and never sent twice. Raises RpcError and Failure."""
    root = context.root()
    if (found := why_no_daemon(root)) is not None:
        raise Failure(*found, word="permission_denied")
    return _from_daemon(context, root, method, with_caller(context.world.caller(), method, params), True)


def answer_here(context: Context, root: Root, method: str, params: Mapping[str, Any]) -> Any:
    """The answer of the daemon's own code, loaded into this process only now. Raises RpcError and Failure."""
    return _direct().answer(method, dict(params), root, context.world.caller())


def examine_here(context: Context, root: Root, asked: Mapping[str, Any]) -> Any:
    """The doctor document, made in this process from what the command knows and what stands here. Raises Failure."""
    world = context.world
    return _direct().doctor(dict(asked), root, world.caller(), world.environ, world.passwd_home())


def _direct() -> Any:
    """The door to the daemon's code, which answers here without a daemon. Raises Failure."""
    from importlib import import_module

    try:
        return import_module("cueloop_daemon.direct")
    except ImportError as exc:
        raise Failure("This installation cannot answer without a daemon.", f"Its daemon part is incomplete: {exc}.") from exc


def _from_daemon(context: Context, root: Root, method: str, params: Mapping[str, Any], may_start: bool) -> Any:
    world = context.world

    def attempt() -> Any:
        with connected(context, root, may_start) as sock:
            return ask(sock, method, params, world.deadline(context.seconds))

    return until_served(root, world, world.deadline(context.seconds), attempt, may_start=may_start)


def connected(context: Context, root: Root, may_start: bool) -> socket.socket:
    """A connection to the root's daemon, started if that is allowed. Raises NoDaemon, and what `reach_or_upgrade` and `launch` do."""
    world = context.world

    def to_start() -> Deadline:
        return world.deadline(context.start_seconds)

    sock = reach_or_upgrade(root, world, world.deadline(context.seconds), to_start, may_start=may_start)
    if sock is not None:
        return sock
    if not may_start:
        raise NoDaemon("No daemon runs for this repository.", "Start it: cueloop daemon start")
    from cueloop_client.launch import launch

    return launch(root, world, to_start())

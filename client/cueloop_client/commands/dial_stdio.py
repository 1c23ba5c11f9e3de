"""`cueloop dial-stdio`: standard input and output become a connection to the daemon here, for `--host` on another machine."""

from __future__ import annotations

import os

from cueloop_client.failures import Barred, Failure, NoDaemon
from cueloop_client.fast import connected
from cueloop_client.reach import why_no_daemon
from cueloop_client.remote.bridge import Beats, Bridge
from cueloop_client.remote.paths import expanded
from cueloop_client.remote.word import from_word, greeting, line_of
from cueloop_protocol.codes import RpcError, error_document, shutting_down
from cueloop_protocol.roots import RootError, find_root, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping
    from typing import Any

    from cueloop_client.context import Context
    from cueloop_protocol.roots import Root

NOT_RUNNING = "not_running"
"""The greeting's `state` where no daemon runs and none was to be started."""


def run(context: Context) -> int:
    """Connect, greet if the other side asked for it by a word, and copy bytes until either side has ended."""
    asked = from_word(context.values.words[0]) if context.values.words else {}
    nonce = asked.get("nonce")
    if not isinstance(nonce, str):
        with _connect(context, context.root(), True) as sock:
            return _copy(context, sock, None)
    try:
        root = root_of(context, asked.get("repo"))
        sock = _connect(context, root, asked.get("start") is True)
    except (NoDaemon, Failure, RootError, RpcError) as exc:
        return _refuse(context, nonce, exc)
    with sock:
        beats = _beats(asked)
        told = {"state": "connected", "beats": beats is not None, **_who(context, root)}
        context.world.write(1, greeting(nonce, told))
        return _copy(context, sock, beats)


def root_of(context: Context, repo: object) -> Root:
    """The repository that the other side names: absolute, or below the home here. Raises RootError."""
    return find_root(expanded(repo, context.world))


def _connect(context: Context, root: Root, start: bool) -> socket.socket:
    if start and (found := why_no_daemon(root)) is not None:
        raise Barred(*found)
    return connected(context, root, start)


def _copy(context: Context, sock: socket.socket, beats: Beats | None) -> int:
    Bridge(0, 1, sock, context.world.monotonic, beats).run(_last_words)
    return 0


def _last_words(bridge: Bridge) -> bytes:
    """A daemon that ends before it has taken a byte of the client has done nothing, and the client, far off, cannot know that."""
    return b"" if bridge.delivered else line_of({"jsonrpc": "2.0", "id": None, "error": shutting_down("replaced").to_wire()})


def _beats(asked: Mapping[str, Any]) -> Beats | None:
    every, idle = asked.get("beat"), asked.get("idle")
    if isinstance(every, int | float) and isinstance(idle, int | float) and every > 0 and idle > 0:
        return Beats(float(every), float(idle))
    return None


def _who(context: Context, root: Root) -> dict[str, Any]:
    """What the other side must know: whose configuration and environment count, and what is meant by the path."""
    from cueloop_client.calling import caller_params
    from cueloop_client.run_request import agents_environment

    environment, _ = agents_environment(context.world.agents_environ())
    return {**_versions(), "root": shown(root.path), "caller": caller_params(context.world.caller()), "env": environment}


def _refuse(context: Context, nonce: str, exc: Exception) -> int:
    told: Mapping[str, Any]
    if isinstance(exc, NoDaemon):
        told = {"state": NOT_RUNNING, **_versions()}
    else:
        told = {"state": "failed", "error": _document(exc), "kind": type(exc).__name__, **_versions()}
    context.world.write(1, greeting(nonce, told))
    return 1


def _versions() -> dict[str, Any]:
    from cueloop_protocol.version import OLDEST_PROTOCOL_VERSION, PROTOCOL_VERSION, __version__

    return {"version": __version__, "protocol_min": OLDEST_PROTOCOL_VERSION, "protocol_max": PROTOCOL_VERSION, "pid": os.getpid()}


def _document(exc: Exception) -> dict[str, Any]:
    if isinstance(exc, Failure | RpcError):
        return dict(exc.document() if isinstance(exc, Failure) else exc.document)
    return error_document("unknown", f"{exc}.")

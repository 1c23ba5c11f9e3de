"""What goes with a request: whose configuration is meant. Standard library only."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from cueloop_protocol.roots import Caller

WITH_CALLER = frozenset(
    {"config.resolve", "workspace.overview", "session.get", "resume.preview", "run.start", "events.subscribe"}
)
"""Methods that take `caller`."""
READING = frozenset(
    {
        "ping",
        "hello",
        "config.resolve",
        "workspace.overview",
        "session.get",
        "resume.preview",
        "daemon.status",
        "daemon.dump",
        "rpc.discover",
    }
)
"""Methods that change nothing, so that a request whose answer was lost may be sent again."""


def with_caller(caller: Caller, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """The params, and `caller` where the method takes it and none is given."""
    if method not in WITH_CALLER or "caller" in params:
        return dict(params)
    return {**params, "caller": caller_params(caller)}


def caller_params(caller: Caller) -> dict[str, str]:
    """The `caller` of a request."""
    from cueloop_protocol.roots import shown

    told = {"home": shown(caller.home)}
    if caller.config_home is not None:
        told["config_home"] = shown(caller.config_home)
    return told

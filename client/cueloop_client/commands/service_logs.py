"""`cueloop service logs`."""

from __future__ import annotations

from cueloop_client.failures import Failure
from cueloop_client.service.platform import manager_of
from cueloop_client.service.removing import find
from cueloop_client.service.tools import MISSING
from cueloop_protocol.roots import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_client.context import Context

LINES = 50


def run(context: Context) -> int:
    """What the manager kept of the daemon's outputs: starts, failures, the watchdog. Raises Failure where there is no service."""
    root = context.root()
    manager = manager_of(context.world)
    found = find(manager, root.path)
    if found is None:
        raise Failure(
            f"There is no service for {shown(root.path)}.", "The daemon's own log is there without one: cueloop daemon logs"
        )
    values = context.values
    argv = manager.log_command(
        found.key, found.instance, values.number("lines", LINES), follow=values.has("follow"), json=context.json
    )
    code = manager.tools.show(argv)
    if code == MISSING:
        raise Failure(f"This system has no {argv[0]}.", "The daemon's own log is there without it: cueloop daemon logs")
    return code

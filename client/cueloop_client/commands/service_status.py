"""`cueloop service status`."""

from __future__ import annotations

from cueloop_client.failures import FAILED, NOT_RUNNING
from cueloop_client.service.installing import planned
from cueloop_client.service.looking import look
from cueloop_client.service.platform import manager_of
from cueloop_client.service.text import looked, looked_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_client.context import Context


def run(context: Context) -> int:
    """Say how the service is; 3 if there is none, 1 if something is wrong with it. Wakes no daemon."""
    root, world = context.root(), context.world
    manager = manager_of(world)
    service, files = planned(root, world, manager)
    found = look(root, world, manager, files, service.key, service.instance)
    if context.json:
        context.print_json(looked_json(found))
    else:
        context.print(looked(found, root.path))
    if found.found is None:
        return NOT_RUNNING
    return FAILED if found.problems else 0

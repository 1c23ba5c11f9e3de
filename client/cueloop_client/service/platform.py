"""Which service manager this system has. Standard library only."""

from __future__ import annotations

import sys

from cueloop_client.failures import Failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_client.service.manager import Manager
    from cueloop_client.world import World


def manager_of(world: World, platform: str = sys.platform) -> Manager:
    """The manager of this system and user. Raises Failure where there is none that we know."""
    if platform == "darwin":
        from cueloop_client.service.launchd import Launchd

        return Launchd(world)
    if platform == "linux":
        from cueloop_client.service.systemd import Systemd

        return Systemd(world)
    raise Failure(f"There is no service for this system ({platform}).", "Commands start the daemon by themselves.")

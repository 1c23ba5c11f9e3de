"""What a command works with where the repository is on another machine. Standard library only."""

from __future__ import annotations

from cueloop_client.far import FarRoot
from cueloop_client.remote.dialing import SshDistance
from cueloop_client.remote.url import parse_host
from cueloop_client.world import World


def far_place(host: str, world: World) -> tuple[FarRoot, World]:
    """The repository that `--host` names, and the world as it is for it. Raises Usage. Nothing is called yet."""
    url = parse_host(host)
    distance = SshDistance(url, world)
    values = {**vars(world), "distance": distance}
    return FarRoot(path=url.path, base=url.path, distance=distance), World(**values)

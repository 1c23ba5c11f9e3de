"""What a command works with where the repository is on another machine. Standard library only."""

from __future__ import annotations

from cueloop_client.far import FarRoot
from cueloop_client.remote.dialing import SshDistance
from cueloop_client.remote.url import parse_host
from cueloop_client.world import World


def far_place(host: str, world: World, *, machine: bool = True, seconds: float | None = None) -> tuple[FarRoot, World]:
    """The repository that `--host` names, and the world as it is for it. Raises Usage. Nothing is called yet.

    `machine`: for a program, to which a path that is no repository there is an ordinary failure; for people it is wrong usage.
    `seconds`: how long a login may take.
    """
    url = parse_host(host)
    distance = SshDistance(url, world, machine=machine, seconds=seconds)
    values = {**vars(world), "distance": distance}
    return FarRoot(path=url.path, base=url.path, distance=distance), World(**values)

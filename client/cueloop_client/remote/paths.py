"""Paths as the other side names them. Standard library only."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_client.world import World


def expanded(repo: object, world: World) -> str:
    """The path of the repository here; `~` is the home of whoever was logged in."""
    path = repo if isinstance(repo, str) else "."
    return world.caller().home + path[1:] if path == "~" or path.startswith("~/") else path

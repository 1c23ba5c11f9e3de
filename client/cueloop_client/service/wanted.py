"""What the service of one repository is to be: everything of the world that its files depend on. Standard library only."""

from __future__ import annotations

import os
import sys

from cueloop_client.failures import Failure
from cueloop_client.service.escaping import instance_of
from cueloop_client.spawn import PACKAGES, finders
from cueloop_protocol.frozen import Frozen
from cueloop_protocol.place import root_hash
from cueloop_protocol.roots import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_client.world import World
    from cueloop_protocol.roots import Root

DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
ROOM = 200 * 1024
"""Bytes of a command line; the kernel takes 128 KiB in one word, systemd a line of 1 MiB."""


class Wanted(Frozen):
    """The service of the repository at `path`. `key`: its hash; `argv`: what is executed; `environ`: what is added to the manager's."""

    path: str
    key: str
    instance: str
    argv: tuple[str, ...]
    environ: tuple[tuple[str, str], ...]


def wanted(root: Root, world: World) -> Wanted:
    """The service that this command's own interpreter and PATH make. Raises Failure for what no manager can be told.

    PATH is the caller's: that of a user's manager is bare, and then neither git nor the agents are found.
    """
    key = root_hash(root)
    path = world.environ.get("PATH") or DEFAULT_PATH
    environ = {"PATH": path, **finders(world.environ, PACKAGES)}
    argv = command(root)
    for what, text in (("repository", root.path), ("interpreter", sys.executable), ("PATH", path)):
        _check(what, text)
    return Wanted(root.path, key, instance_of(root.path, key), argv, tuple(environ.items()))


def command(root: Root) -> tuple[str, ...]:
    """As a daemon is started on demand: this interpreter by its absolute path, no working directory on Python's own path."""
    if not os.path.isabs(sys.executable or ""):
        raise Failure("The service cannot be written: this Python does not know its own path.")
    return (sys.executable, "-P", *(["-s"] if sys.flags.no_user_site else []), "-m", "cueloop_daemon", "--root", root.path)


def _check(what: str, text: str) -> None:
    if any(char < " " or char == "\x7f" for char in text):
        raise Failure(
            f"The {what} has a line break or another control character in its name: {shown(text)}.",
            "A service manager cannot be told of it. Without a service everything works: commands start the daemon by themselves.",
        )
    if len(os.fsencode(text)) > ROOM:
        raise Failure(f"The {what}'s name is too long for a service manager.", f"It has {len(os.fsencode(text))} bytes.")

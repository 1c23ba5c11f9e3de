"""The locks of an owner that ended while it was asked. Standard library only."""

from __future__ import annotations

import time

from cueloop_daemon.store.ownership import AlreadyOwned, Ownership
from cueloop_protocol.roots import Root

SECONDS = 2.0
"""A process that was killed has closed its sockets a moment before its locks; more than that is another owner."""
LOOK = 0.01


def acquire_soon(root: Root, uid: int, owned: AlreadyOwned) -> Ownership | AlreadyOwned:
    """Take the locks as soon as they are free; `owned`, or who has them then, if they are not in time."""
    until = time.monotonic() + SECONDS
    found: Ownership | AlreadyOwned = owned
    while isinstance(found, AlreadyOwned) and time.monotonic() < until:
        time.sleep(LOOK)
        found = Ownership.acquire(root, uid)
    return found

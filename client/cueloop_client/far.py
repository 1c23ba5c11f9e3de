"""A repository on another machine, as the code sees it that otherwise finds files and sockets here. Standard library only.

What must ask whether it is here asks for a `FarRoot`; everything after the connection is the same.
"""

from __future__ import annotations

import os

from cueloop_protocol.roots import Root

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping, Sequence
    from typing import Protocol

    from cueloop_client.world import Deadline
    from cueloop_protocol.roots import Caller

    class Distance(Protocol):
        """The way to the other machine. Everything raises `Failure`s that name the machine."""

        def dial(self, deadline: Deadline, *, start: bool) -> socket.socket | None:
            """A connection to the daemon there, which is started if that is allowed; None if none runs."""

        def caller(self) -> Caller:
            """Whose configuration counts there."""

        def environ(self) -> Mapping[str, str]:
            """The environment of a command there, which is what agents get: they never see this machine's."""


class FarRoot(Root):
    """`path` is as it was named, for people; there is nothing here for system calls."""

    distance: Distance

    def join(self, *parts: str) -> str:
        """Raises ValueError: the files are elsewhere."""
        raise ValueError(f"{self.path} is on another machine")


LOGIN_PAUSES = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Like the pauses between attempts to connect here, where each attempt is a login on another machine, which may count them."""


def pause_before(attempt: int, root: Root, here: Sequence[float]) -> float:
    """Seconds before the attempt with this number, from 0, to connect again; `here` is for repositories on this machine.

    Far away it varies by a quarter, so that many who lost one network do not come back as one.
    """
    pauses = LOGIN_PAUSES if isinstance(root, FarRoot) else here
    pause = pauses[min(attempt, len(pauses) - 1)]
    return pause * (0.75 + os.urandom(1)[0] / 510) if isinstance(root, FarRoot) else pause

"""A repository on another machine, as the code sees it that otherwise finds files and sockets here. Standard library only.

What must ask whether it is here asks for a `FarRoot`; everything after the connection is the same.
"""

from __future__ import annotations

from cueloop_protocol.roots import Root

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping
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

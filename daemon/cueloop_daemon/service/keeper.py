"""Who keeps this daemon: how it was started, the socket that came with it, and where to tell how it is. Standard library only."""

from __future__ import annotations

import os
import socket
import time

from cueloop_daemon.service.notify import Notifier
from cueloop_daemon.service.origin import Origin
from cueloop_protocol.frozen import Frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_daemon.service.activation import Activated


class Keeper(Frozen):
    """Nobody keeps a daemon by default: somebody at a terminal started it, and it binds its socket itself."""

    origin: Origin = Origin()
    activated: Activated | None = None
    notifier: Notifier = Notifier(None, time.monotonic)

    def sockets(self) -> tuple[socket.socket, ...]:
        """The socket that came, once more, the caller's to close: its descriptor stays open here as long as the process lives."""
        return () if self.activated is None else (socket.socket(fileno=os.dup(self.activated.fd)),)

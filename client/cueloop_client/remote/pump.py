"""The thread between a command's socket and ssh's pipes, and the end of ssh. Standard library only."""

from __future__ import annotations

import atexit
import socket
import threading
from contextlib import suppress

from cueloop_client.remote import ssh
from cueloop_client.remote.bridge import Bridge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from cueloop_client.remote.bridge import Beats
    from cueloop_client.remote.ssh import Line

_lines: set[Line] = set()
"""Those whose ssh runs."""


def begin(line: Line, early: bytes, monotonic: Callable[[], float], beats: Beats | None) -> socket.socket:
    """An ordinary connected socket to whoever is at the other end of the line. To close it is to leave, and ends ssh."""
    ours, inner = socket.socketpair()
    _lines.add(line)
    bridge = Bridge(line.reading, line.writing, inner, monotonic, beats, early=early)
    threading.Thread(target=_copy, args=(line, bridge, inner), name="ssh", daemon=True).start()
    return ours


def _copy(line: Line, bridge: Bridge, inner: socket.socket) -> None:
    try:
        bridge.run()
    finally:
        inner.close()  # what was not handed on is lost with the line: whoever reads is told at once
        ssh.end(line)
        _lines.discard(line)


@atexit.register
def _end_all() -> None:
    """Whatever line is still open ends with us."""
    for line in list(_lines):
        with suppress(OSError):
            line.process.terminate()

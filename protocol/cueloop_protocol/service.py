"""Names that the daemon and whoever installs it as a service have to agree on. Standard library only."""

from __future__ import annotations

SOCKET_NAME = "cueloopd"
"""What systemd (`FileDescriptorName=`) and launchd (`Sockets`) call the socket that they pass."""
LABEL = "io.cueloop.cueloopd."
"""How the label of a launchd job begins; the root's hash follows."""

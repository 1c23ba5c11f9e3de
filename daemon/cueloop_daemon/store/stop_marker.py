"""`.cueloop/cache/stop_requested`: any file there asks a loop to stop after its current task. Standard library only."""

from __future__ import annotations

from cueloop_daemon.store.folder import CACHE

MARKER = (*CACHE, "stop_requested")
"""The parts of its path below the root."""

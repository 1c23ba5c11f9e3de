"""How a shim is started: by whoever inherits nothing from it but three descriptors. Standard library only."""

from __future__ import annotations

import os

import cueloop_daemon
import cueloop_protocol

BOOT = "import sys; sys.path.extend(sys.argv[1:3]); from cueloop_daemon.shim.boot import main; sys.exit(main(sys.argv[3:]))"
"""Appended, not inserted: nothing in an installation's folder can stand before the standard library."""


def command_line(executable: str, root_fd: int, run_fd: int, ready_fd: int) -> list[str]:
    """The shim's command: an interpreter that reads no environment and no site packages.

    The descriptors must be inheritable: the root, the run's folder, and the writing end of a pipe on which one line arrives:
    `{"ready": {pid, start, boot, protocol, socket}}`, `{"held": true}` (another shim has this run), `{"over": true}` (the run is
    settled), or `{"error": {errno, where}}`. Its end without a line: the shim died, and its standard error says why.
    """
    parents = [os.path.dirname(os.path.dirname(os.path.abspath(str(one.__file__)))) for one in (cueloop_daemon, cueloop_protocol)]
    return [executable, "-I", "-S", "-X", "utf8", "-c", BOOT, *parents, str(root_fd), str(run_fd), str(ready_fd)]

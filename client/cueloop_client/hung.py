"""Asking a daemon that does not answer for its stacks, by a signal to exactly that process. Standard library only."""

from __future__ import annotations

import os
from signal import SIGUSR1
from threading import Event

from cueloop_client.reach import Process
from cueloop_protocol.identity import boot_id, is_same_process, send_signal
from cueloop_protocol.owners import owner_of
from cueloop_protocol.place import FOLDER, read_locator, root_hash
from cueloop_protocol.roots import Root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_client.world import Deadline, World

STACKS = f"{FOLDER}/stacks.txt"
LOOK = 0.05
"""Seconds between two looks at the file of stacks."""


def living_process(root: Root, world: World) -> Process | None:
    """The process that owns the repository, by its lock or by its locator; None if none lives."""
    owner = owner_of(root_hash(root), world.uid)
    if owner is not None:
        return Process(owner.pid, owner.start_time, owner.boot_id)
    locator = read_locator(root, world.uid)
    return Process(locator.pid, locator.start_time, locator.boot_id) if locator is not None else None


def ask_for_stacks(root: Root, process: Process, deadline: Deadline) -> str:
    """Send SIGUSR1 and wait until the stacks are written, at most until the deadline; what came of it, in a sentence.

    A process that would die of the signal, because it is not ready for it yet, gets none.
    """
    if not catches(process.pid, SIGUSR1):
        return "It was not asked for its stacks: it does not handle the signal (yet)."
    try:
        if not send_signal(process.pid, process.start_time, process.boot_id, SIGUSR1):
            return "It ended meanwhile."
    except PermissionError:
        return "It was not asked for its stacks: it may not be signalled."
    pause, before = Event(), 0
    while not deadline.is_over():
        pause.wait(LOOK)
        size = _size(root.join(STACKS))
        if size and size == before:
            return "It was asked for its stacks by SIGUSR1 and wrote them."
        before = size
        if not is_same_process(process.pid, process.start_time, boot_id()):
            return "It ended meanwhile."
    return "It was asked for its stacks by SIGUSR1. What it said, if anything, is in the log."


def catches(pid: int, number: int) -> bool:
    """Whether the process has a handler for the signal; where the system does not tell, one that serves is believed to."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            masks = dict(line.split(b":", 1) for line in file.read().splitlines() if b":" in line)
        return bool(int(masks[b"SigCgt"], 16) >> (number - 1) & 1)
    except (OSError, ValueError, KeyError):
        return True


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0

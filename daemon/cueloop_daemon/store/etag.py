"""Names for the exact bytes of a session file, so that a later answer can say which ones it meant. Standard library only."""

from __future__ import annotations

import hashlib
import os

SESSION_LIMIT = 1024 * 1024
"""A session file over this many bytes is refused unread (contract section 2) and is named by its stat."""


def etag_of_bytes(data: bytes) -> str:
    """64 lower-case hex digits: equal for equal bytes, whoever wrote them and when."""
    return hashlib.sha256(data).hexdigest()


def etag_of_stat(status: os.stat_result) -> str:
    """`stat-` and 64 hex digits, for a file that is not read: device, inode, size and time of change of its content.

    The time of change of the inode is left out, so that the name survives a rename: what we move is looked at again afterwards.
    """
    facts = f"{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"
    return f"stat-{hashlib.sha256(facts.encode()).hexdigest()}"

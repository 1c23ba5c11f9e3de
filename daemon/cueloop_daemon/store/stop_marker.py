"""`.cueloop/cache/stop_requested`: any file there asks a loop to stop after its current task. Standard library only."""

from __future__ import annotations

import errno
import os
from typing import Literal

from cueloop_daemon.store.folder import CACHE, ensure_cache, shown_path
from cueloop_daemon.store.not_writable import not_writable
from cueloop_daemon.store.system import System
from cueloop_protocol.roots import Root
from cueloop_protocol.values import dataclass

MARKER = (*CACHE, "stop_requested")

Action = Literal["would_create", "created", "already_present"]


@dataclass(frozen=True, slots=True)
class StopMarker:
    """The facts of the stop document (contract section 7); `path` is as people see it."""

    action: Action
    path: str
    existed_before: bool
    exists_after: bool


def is_stop_requested(root: Root, system: System) -> bool:
    """Whether anything is at the marker's path. Raises `NotWritable` where that cannot be seen."""
    try:
        system.lstat(root.join(*MARKER))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as exc:
        raise not_writable(exc, shown_path(root, *MARKER), "see") from exc
    return True


def request_stop(root: Root, system: System, *, dry_run: bool = False) -> StopMarker:
    """Make the marker, durably; one that is there already is left as it is. Raises `NotWritable`, and then none was made."""
    path = shown_path(root, *MARKER)
    if is_stop_requested(root, system):
        return StopMarker("already_present", path, existed_before=True, exists_after=True)
    if dry_run:
        return StopMarker("would_create", path, existed_before=False, exists_after=False)
    ensure_cache(root, system)
    try:
        fd = system.open(root.join(*MARKER), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        system.close(fd)
        system.fsync_folder(os.path.dirname(root.join(*MARKER)))
    except OSError as exc:
        if exc.errno == errno.EEXIST:  # another caller was faster
            return StopMarker("already_present", path, existed_before=True, exists_after=True)
        raise not_writable(exc, path) from exc
    return StopMarker("created", path, existed_before=False, exists_after=True)


def clear_stop(root: Root, system: System) -> bool:
    """Remove the marker, durably; whether there was one. Raises `NotWritable`."""
    path = root.join(*MARKER)
    try:
        system.unlink(path)
        system.fsync_folder(os.path.dirname(path))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as exc:
        raise not_writable(exc, shown_path(root, *MARKER), "remove") from exc
    return True

"""Sentences for people about why the system gives no events, with the setting that decides and how to raise it."""

from __future__ import annotations

import errno
import os

_POLLING = "changes are found by looking every second instead"


def explain(exc: OSError) -> str:
    """Why watching failed, what happens now, and the remedy."""
    if exc.errno == errno.ENOSPC:
        return f"no more folders may be watched (fs.inotify.max_user_watches); {_POLLING}. {_raise('max_user_watches', 524288)}"
    if exc.errno == errno.EMFILE and _can_open():
        return f"no more watchers may be made (fs.inotify.max_user_instances); {_POLLING}. {_raise('max_user_instances', 1024)}"
    if exc.errno in (errno.EMFILE, errno.ENFILE):
        return f"too many files are open to watch anything; {_POLLING}. Raise the limit (ulimit -n) and restart the daemon."
    return f"the system gives no events ({exc.strerror}); {_POLLING}."


def _raise(name: str, value: int) -> str:
    return f"Raise it: sudo sysctl fs.inotify.{name}={value}"


def _can_open() -> bool:
    """Whether this process may open one more file: EMFILE of inotify means either limit, the process's or the user's."""
    try:
        os.close(os.open("/", os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return False
    return True

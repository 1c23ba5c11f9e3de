"""SIGUSR1: the stacks of all threads at once, also when the event loop is blocked; those of the tasks as soon as it is not.

`faulthandler` writes from inside the signal handler, in C, into a file that is open all the time. It then calls the handler that was
there before it, by which the loop hears of the signal, tells everything in the log, and empties the file. What is in the file is
therefore what a loop that hangs could not say.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
from contextlib import suppress
from typing import Self

logger = logging.getLogger(__name__)

STACKS = "stacks.txt"
"""The file's name, beside the log."""


class StackSignal:
    """While entered, SIGUSR1 writes stacks. Enter it on the main thread, inside whatever else handles the signal."""

    def __init__(self, path: str) -> None:
        """`path` is made, 0600, and removed at the end. Where it cannot be, standard error takes the stacks."""
        self._path = path
        self._fd = -1

    def __enter__(self) -> Self:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            self._fd = os.open(self._path, flags, 0o600)
        except OSError as exc:
            logger.warning("stacks_not_kept path=%s error=%s", self._path, exc.strerror)
        with suppress(OSError, ValueError, RuntimeError):  # a standard error that is closed: then only the loop tells
            faulthandler.register(signal.SIGUSR1, file=self._fd if self._fd >= 0 else 2, all_threads=True, chain=True)
        return self

    def __exit__(self, *_: object) -> None:
        faulthandler.unregister(signal.SIGUSR1)
        if self._fd >= 0:
            with suppress(OSError):
                if os.path.samestat(os.fstat(self._fd), os.lstat(self._path)):
                    os.unlink(self._path)
            os.close(self._fd)
            self._fd = -1

    def tell(self) -> None:
        """Write where every task and thread stands to the log. To be called by the loop when it hears of the signal."""
        from cueloop_daemon.dump.stacks import task_stacks, thread_stacks  # few ever ask, so no start waits for it

        for task in task_stacks():
            logger.info("task id=%d name=%s state=%s stack=%s", task.id, task.name, task.state, " < ".join(task.frames[::-1]))
        for thread in thread_stacks():
            logger.info("thread name=%s stack=%s", thread.name, " < ".join(thread.frames[::-1]))
        with suppress(OSError):
            if self._fd >= 0:
                os.ftruncate(self._fd, 0)

"""Bringing a daemon back when there is something to tell it. Standard library only."""

from __future__ import annotations

import os

from cueloop_daemon.shim.kin import be_subreaper
from cueloop_daemon.shim.launch import exists
from cueloop_daemon.shim.lean import signal, suppress
from cueloop_daemon.shim.wire import STOPPED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_daemon.shim.launch import Place

FIRST_WAIT = 1.0
LONGEST_WAIT = 60.0
LOG_FILE = "wake.log"
"""In the run's folder: what the last daemon that was started said on its standard error."""


class Waker:
    """Starts daemons, ever more seldom, until one connects. Which of several daemons stays is for their own lock to decide."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._wait = FIRST_WAIT
        self._due: float | None = None

    def rest(self) -> None:
        """A daemon is there, or none is wanted."""
        self._wait, self._due = FIRST_WAIT, None

    def advance(self, now: float) -> None:
        """A daemon is wanted: start one if its time has come, and nobody has stopped it on purpose."""
        if self._due is None:
            self._due = now + self._wait
        if now < self._due:
            return
        self._wait = min(self._wait * 2, LONGEST_WAIT)
        self._due = now + self._wait
        if not exists(self._place.root, STOPPED) and self._place.spec.daemon_argv:
            with suppress(OSError):
                self._start()

    def _start(self) -> None:
        """Fork twice, so that it is nobody's child, least of all ours, whose kin we end."""
        spec = self._place.spec
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        log = os.open(LOG_FILE, flags, 0o600, dir_fd=self._place.folder)
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        try:
            be_subreaper(False)
            pid = os.fork()
            if pid == 0:
                self._be_starter(spec.daemon_argv, spec.daemon_env, null, log)
            os.waitpid(pid, 0)
        finally:
            be_subreaper(True)
            os.close(log)
            os.close(null)

    def _be_starter(self, argv: tuple[str, ...], env: dict[str, str], null: int, log: int) -> None:
        """Never returns."""
        try:
            os.close(self._place.lock)
            signal.set_wakeup_fd(-1)
            os.setsid()
            if os.fork() == 0:
                for number, fd in enumerate((null, log, log)):
                    os.dup2(fd, number)
                for signum in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
                    with suppress(OSError, ValueError):
                        signal.signal(signum, signal.SIG_DFL)
                os.umask(self._place.umask)
                os.execve(argv[0], argv, {os.fsencode(k): os.fsencode(v) for k, v in env.items()})
        finally:
            os._exit(127)

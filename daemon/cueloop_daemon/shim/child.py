"""Starting a child behind a gate: it runs nothing before it is on record. Standard library only.

fork; the child makes itself a session, points its standard streams, and waits for one byte. The shim writes down who it is and
sends the byte; only then the child executes. A shim that dies first closes the pipe by dying, and the child leaves. Thus every
program that ever ran is on record, and a record may name a process that ran none.
"""

from __future__ import annotations

import os
import sys

from cueloop_daemon.shim.lean import signal, suppress
from cueloop_protocol.frozen import Frozen
from cueloop_protocol.identity import process_start_time

PIPE_SIZE = 1024 * 1024
_F_SETPIPE_SZ = 1031
_NOT_EXECUTED = 126
_MOST_DESCRIPTORS = 4096
"""Far more than a shim has open."""


class StartFailed(Exception):
    """No child. `stage`: cwd, open, fork, record or exec; `errno` is the system's number."""

    def __init__(self, stage: str, number: int) -> None:
        super().__init__(f"{stage}: {os.strerror(number)}")
        self.stage = stage
        self.errno = number


class Command(Frozen):
    """What to execute. `stdin` is an open descriptor, `cwd` that of a folder; `umask` is the one children get."""

    argv: tuple[str, ...]
    env: dict[str, str]
    stdin: int
    cwd: int
    umask: int


class Gated(Frozen):
    """A child that waits for its byte. `gate` lets it go; `fate` tells how its exec went: its end is success, an int is errno."""

    pid: int
    start: str
    out: int
    err: int
    gate: int
    fate: int

    def open_gate(self) -> None:
        """Let it execute. Its death in the meantime is no error: its end is told as any other's."""
        with suppress(BrokenPipeError):
            os.write(self.gate, b"!")
        os.close(self.gate)

    def keep_shut(self) -> None:
        """Have it leave without executing anything, and forget it."""
        for fd in (self.gate, self.fate, self.out, self.err):
            os.close(fd)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def fork_gated(command: Command, lock: int) -> Gated:
    """A child that has executed nothing yet. `lock` is the descriptor that it closes before anything else.

    Raises StartFailed(fork).
    """
    ours: list[int] = []
    theirs: list[int] = []
    try:
        for is_reading in (True, True, False, True):  # out, err, gate, fate, from our side
            reading, writing = os.pipe()
            ours.append(reading if is_reading else writing)
            theirs.append(writing if is_reading else reading)
        masked = signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
        try:
            pid = os.fork()
            if pid == 0:
                _be_child(command, lock, theirs, ours)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, masked)
    except OSError as exc:
        for fd in ours:
            os.close(fd)
        raise StartFailed("fork", exc.errno or 0) from exc
    finally:
        for fd in theirs:
            os.close(fd)
    out, err, gate, fate = ours
    for fd in (out, err):
        _widen(fd)
        os.set_blocking(fd, False)
    os.set_blocking(fate, False)
    return Gated(pid, process_start_time(pid) or "", out, err, gate, fate)


def _be_child(command: Command, lock: int, theirs: list[int], ours: list[int]) -> None:
    """Never returns. No exception may leave: two shims would go on."""
    status = _NOT_EXECUTED
    try:
        os.close(lock)
        out, err, gate, fate = theirs
        os.close(ours[2])  # before waiting: our own copy of the gate's other end would keep it open for ever
        os.setsid()
        signal.set_wakeup_fd(-1)
        stdin, cwd, gate, fate = (_above(fd) for fd in (command.stdin, command.cwd, gate, fate))
        for number, fd in enumerate((stdin, _above(out), _above(err))):
            os.dup2(fd, number)
        _close_all_but({0, 1, 2, cwd, gate, fate})
        if os.read(gate, 1):
            _execute(command, cwd, fate)
    except BaseException:  # whatever it was, the parent sees a child that ended without executing
        status = _NOT_EXECUTED
    finally:
        os._exit(status)


def _execute(command: Command, cwd: int, fate: int) -> None:
    """Become the program, or say why not."""
    try:
        os.fchdir(cwd)
        os.umask(command.umask)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            with suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execve(command.argv[0], command.argv, {os.fsencode(k): os.fsencode(v) for k, v in command.env.items()})
    except OSError as exc:
        os.write(fate, str(exc.errno or 0).encode("ascii"))


def _above(fd: int) -> int:
    """The same file at a number that no standard stream has, closed by exec."""
    import fcntl

    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)


def _close_all_but(kept: set[int]) -> None:
    low = 0
    for fd in (*sorted(kept), _MOST_DESCRIPTORS):
        if low < fd:  # an empty range from 0 closes everything on some versions
            os.closerange(low, fd)
        low = fd + 1


def _widen(fd: int) -> None:
    """Let the pipe hold more, so that a child waits less. The system may have had enough of that."""
    if sys.platform == "linux":
        import fcntl

        with suppress(OSError):
            fcntl.fcntl(fd, _F_SETPIPE_SZ, PIPE_SIZE)

"""Commands as processes: on a terminal of their own, or with pipes; every wait has an end."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from cueloop_protocol.roots import Root

SECONDS = 30.0
CUELOOP = [sys.executable, "-m", "cueloop_client"]
CONTROL_C = "\x03"
CONTROL_D = "\x04"


class Terminal:
    """A command on a pseudo-terminal: what it shows, and a keyboard."""

    def __init__(self, process: subprocess.Popen[bytes], fd: int) -> None:
        self.process = process
        self.shown = ""
        self._fd = fd

    def type(self, text: str) -> None:
        """Press these keys."""
        os.write(self._fd, text.encode())

    def await_text(self, text: str) -> str:
        """Wait until this is shown; everything up to it, which is then taken away."""
        end = time.monotonic() + SECONDS
        while text not in self.shown:
            assert self._read(end), f"the command ended, or {SECONDS} s passed, without {text!r}: {self.shown!r}"
        before, _, self.shown = self.shown.partition(text)
        return before + text

    def end(self) -> int:
        """Wait until the command has ended; its exit code, negative for a signal."""
        end = time.monotonic() + SECONDS
        while self._read(end):
            pass
        return self.process.wait(max(0.1, end - time.monotonic()))

    def hang_up(self) -> None:
        """The terminal goes away."""
        os.close(self._fd)
        self._fd = -1

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def _read(self, end: float) -> bool:
        ready, _, _ = select.select([self._fd], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self._fd, 65536)
        except OSError:  # the other side is closed
            return False
        self.shown += data.decode("utf-8", "replace").replace("\r\n", "\n")
        return bool(data)


@contextmanager
def on_terminal(root: Root | None, environ: Mapping[str, str], line: str) -> Iterator[Terminal]:
    """Call a command on a terminal that it controls; with a root, for that repository."""
    fd, other = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", TAKE_TERMINAL, *CUELOOP, *([] if root is None else ["--repo", root.path]), *line.split()],
        env=environ,
        stdin=other,
        stdout=other,
        stderr=other,
        start_new_session=True,
    )
    os.close(other)
    terminal = Terminal(process, fd)
    try:
        yield terminal
    finally:
        terminal.close()
        _end(process)


TAKE_TERMINAL = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"


@contextmanager
def as_process(root: Root, environ: Mapping[str, str], line: str) -> Iterator[subprocess.Popen[str]]:
    """Call a command with pipes for its outputs and nothing to read."""
    process = subprocess.Popen(
        [*CUELOOP, "--repo", root.path, *line.split()],
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        _end(process)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def _end(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
    process.wait(SECONDS)

"""A shell on a terminal of its own, as a person has one: what is typed is echoed, and its programs are on a terminal, too."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

SECONDS = 30.0
"""How long a command may say nothing of what is waited for."""
MARK = "\x1e"
"""The prompt: a character that no program shows."""
SIZE = (50, 130)
ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07]*\x07|[()][A-Z0-9])")
SHELL = ("bash", "--norc", "--noprofile", "--noediting", "-i")
TAKE_TERMINAL = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"


class Stuck(Exception):
    """What was waited for did not come; the text has what was shown instead."""


class Terminal:
    """bash on a pseudo-terminal, in a session of its own."""

    def __init__(self, python: str, environ: Mapping[str, str], folder: Path) -> None:
        self._fd, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
        self.process = subprocess.Popen(
            [python, "-c", TAKE_TERMINAL, *SHELL],
            stdin=other,
            stdout=other,
            stderr=other,
            env={**environ, "PS1": MARK, "PS2": "> ", "TERM": "dumb"},
            cwd=folder,
            start_new_session=True,
        )
        os.close(other)
        self._shown = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.await_prompt()

    def type(self, keys: str) -> None:
        """Press these keys."""
        os.write(self._fd, keys.encode())

    def enter(self, command: str) -> None:
        """Type a command at the prompt; its echo is taken away. Raises Stuck."""
        self.type(command + "\n")
        if (echo := self.await_text("\n")) != command + "\n":
            raise Stuck(f"{command!r} was typed, and {echo!r} shown")

    def await_prompt(self) -> str:
        """All that is shown until the prompt returns. Raises Stuck."""
        return self.await_text(MARK).removesuffix(MARK)

    def await_text(self, text: str) -> str:
        """All that is shown up to this text and with it; what comes after it is kept. Raises Stuck."""
        end = time.monotonic() + SECONDS
        while text not in self._shown:
            if MARK in self._shown or not self._read(end):
                raise Stuck(f"{text!r} did not come, but {self._shown!r}")
        before, _, self._shown = self._shown.partition(text)
        return before + text

    def close(self) -> None:
        """The terminal goes away, and the shell with it. May be called twice."""
        if self._fd < 0:
            return
        os.close(self._fd)
        self._fd = -1
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(SECONDS)

    def _read(self, end: float) -> bool:
        if not select.select([self._fd], [], [], max(0.0, end - time.monotonic()))[0]:
            return False
        try:
            data = os.read(self._fd, 65536)
        except OSError:  # the other side is closed
            return False
        shown = self._shown + self._decoder.decode(data)
        self._shown = ESCAPES.sub("", shown).replace("\r\n", "\n")
        return bool(data)

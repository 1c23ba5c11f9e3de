"""Real shells on a terminal, with a `cueloop` whose completion is the real one and which otherwise writes down what it was called with."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

SECONDS = 60.0
AGAIN = 10.0
"""Seconds after which keys are pressed again, twice as many each time."""
KILL_LINE = "\x15"
TAKE_TERMINAL = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"
RECORDER = """\
import json, os, sys
if sys.argv[1:2] == ["complete"]:
    from cueloop_client import complete, main
    complete.SECONDS = 30.0  # what is offered must not depend on how busy the machine is
    sys.exit(main.main())
with open(os.environ["CALLS"], "a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
"""
ARGV: Mapping[str, tuple[str, ...]] = {
    "bash": ("bash", "--noprofile", "--rcfile", "{rc}", "-i"),
    "zsh": ("zsh", "-i"),
    "fish": ("fish", "--no-config", "--private", "-i", "-C", "source '{rc}'"),
}
PREPARED: Mapping[str, str] = {
    "bash": "PS1='ready> '; unset HISTFILE\n",
    "zsh": "PS1='ready> '; unsetopt prompt_sp; fpath=($ZDOTDIR/zfunc $fpath); autoload -Uz compinit; compinit -D\n",
    "fish": "function fish_prompt; echo 'ready> '; end\nfunction fish_greeting; end\n",
}


class Shell:
    """An interactive shell: a keyboard, what it has shown since the last key, and the calls that it made."""

    def __init__(self, process: subprocess.Popen[bytes], fd: int, calls: Path) -> None:
        self.process = process
        self._fd = fd
        self._calls = calls
        self._shown = ""

    def call_of(self, keys: str, wanted: list[str]) -> None:
        """Type the keys and press Tab and Enter until the shell calls `cueloop` with these arguments."""
        seen: list[list[str]] = []

        def press() -> None:
            os.write(self._fd, f"{KILL_LINE}{keys}\t\n".encode())

        def is_there() -> bool:
            self._read()
            seen[:] = [json.loads(line) for line in self._calls.read_text().splitlines()]
            return wanted in seen or [*wanted[:-1], f"{wanted[-1]}/"] in seen  # of a folder; zsh takes the last slash away again

        self._until(press, is_there, lambda: f"{wanted} was not called, but {seen}")

    def list_of(self, keys: str, *wanted: str) -> str:
        """Type the keys and press Tab, as often as a shell needs it, until all of these are shown; everything that was shown."""

        def press() -> None:
            os.write(self._fd, f"{KILL_LINE}{keys}\t\t\t".encode())

        def is_there() -> bool:
            self._read()
            return all(text in self.shown for text in wanted)

        self._shown = ""
        self._until(press, is_there, lambda: f"{[text for text in wanted if text not in self.shown]} is not shown")
        return self._shown

    def await_prompt(self) -> None:
        """Wait until it is ready for the first time."""
        self._until(lambda: None, self._is_ready, lambda: "no prompt")

    @property
    def shown(self) -> str:
        """What was shown, without what moves the cursor or sets colors."""
        return re.sub(r"\x1b(\[[0-9;?>=]*[a-zA-Z]|[()].|[=>])|\x1b\][^\x07]*\x07|[\x0f\r\x08]", "", self._shown)

    def _is_ready(self) -> bool:
        self._read()
        return "ready> " in self.shown

    def _until(self, press: Callable[[], None], is_done: Callable[[], bool], problem: Callable[[], str]) -> None:
        end, patience = time.monotonic() + SECONDS, AGAIN
        while time.monotonic() < end:
            press()
            again, patience = min(end, time.monotonic() + patience), 2 * patience
            while time.monotonic() < again:
                if is_done():
                    return
        raise AssertionError(f"{problem()} within {SECONDS} s; shown: {self._shown!r}")

    def _read(self) -> None:
        """Take what comes within a twentieth of a second."""
        if select.select([self._fd], [], [], 0.05)[0]:
            with suppress(OSError):
                self._shown += os.read(self._fd, 65536).decode("utf-8", "replace")


@contextmanager
def shell(name: str, folder: Path, cwd: Path, environ: Mapping[str, str], *, sourced: bool = False) -> Iterator[Shell]:
    """The shell with the completion installed as the documentation says; what it needs is put into `folder`.

    `sourced`: in zsh, as part of .zshrc and not in a folder of $fpath.
    """
    assert shutil.which(name) is not None, f"{name} is missing: apt-get install {name}"
    (folder / "bin").mkdir(parents=True)
    (folder / "recorder.py").write_text(RECORDER)
    (folder / "calls").touch()
    (folder / "bin/cueloop").write_text(f'#!/bin/sh\nexec "{sys.executable}" -P "{folder}/recorder.py" "$@"\n')
    (folder / "bin/cueloop").chmod(0o755)
    script = [sys.executable, "-P", "-m", "cueloop_client", "completions", name]
    printed = subprocess.run(script, capture_output=True, text=True, timeout=SECONDS, check=True, cwd="/").stdout
    rc = folder / (".zshrc" if name == "zsh" else "rc")
    in_path = name == "zsh" and not sourced
    rc.write_text(PREPARED[name] + ("" if in_path else printed))
    (folder / "zfunc").mkdir()
    (folder / "zfunc/_cueloop").write_text(printed if in_path else "")
    own = {"PATH": f"{folder}/bin:{environ['PATH']}", "ZDOTDIR": str(folder), "CALLS": str(folder / "calls"), "TERM": "xterm"}
    fd, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 60, 200, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", TAKE_TERMINAL, *(word.format(rc=rc) for word in ARGV[name])],
        cwd=cwd, env={**environ, **own}, stdin=other, stdout=other, stderr=other, start_new_session=True,
    )  # fmt: skip
    os.close(other)
    try:
        made = Shell(process, fd, folder / "calls")
        made.await_prompt()
        yield made
    finally:
        os.close(fd)
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        process.wait(SECONDS)

"""Programs of the system, called with a deadline. Standard library only."""

from __future__ import annotations

import os
import shutil
import subprocess

from cueloop_protocol.frozen import Frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SECONDS = 90.0
"""A start of the daemon is waited for by `systemctl`; the unit's own limit is 60 s."""
MISSING = 127


class Done(Frozen):
    """What a program said. `code` 127: there is no such program; 124: it took too long, and was ended."""

    code: int
    out: str
    err: str

    @property
    def last(self) -> str:
        """The last line of what went wrong, for people."""
        lines = (self.err.strip() or self.out.strip()).splitlines()
        return lines[-1].strip() if lines else f"exit code {self.code}"


class Tools:
    """The programs that the environment's PATH has, called in it. `environ` may be another one than the caller's own."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = dict(environ)

    def find(self, name: str) -> str | None:
        """The path of the program; None if there is none."""
        return shutil.which(name, path=self._environ.get("PATH", os.defpath))

    def run(self, argv: Sequence[str], seconds: float = SECONDS) -> Done:
        """Call the program and wait for its end; nothing is put in, and both outputs are given."""
        path = self.find(argv[0])
        if path is None:
            return Done(MISSING, "", f"{argv[0]}: there is no such program on PATH")
        try:
            done = subprocess.run(
                [path, *argv[1:]],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=seconds,
                env=self._environ,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Done(124, "", f"{argv[0]} did not come to its end within {seconds:g} s")
        except OSError as exc:
            return Done(MISSING, "", f"{argv[0]}: {exc.strerror}")
        return Done(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))

    def show(self, argv: Sequence[str]) -> int:
        """Call the program with our own outputs; its exit code."""
        path = self.find(argv[0])
        if path is None:
            return MISSING
        return subprocess.call([path, *argv[1:]], stdin=subprocess.DEVNULL, env=self._environ)

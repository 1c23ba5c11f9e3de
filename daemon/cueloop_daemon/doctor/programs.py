"""Which agents are installed, and what they say of their version: all asked at the same time, with an end."""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence

from cueloop_daemon.runners.environment import MARKERS
from cueloop_protocol.identity import process_start_time
from cueloop_protocol.roots import Caller, Root, expand
from cueloop_protocol.values import dataclass

SECONDS = 5.0
"""How long all of them together may take to say their version."""
OUTPUT_LIMIT = 64 * 1024
_TICK = 0.02
_DEATH = 2.0
QUIET: Mapping[str, str] = {
    "NO_UPDATE_NOTIFIER": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "PI_OFFLINE": "1",
    "PI_TELEMETRY": "0",
    "PI_SKIP_VERSION_CHECK": "1",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "KIMI_CODE_NO_AUTO_UPDATE": "1",
    "KIMI_CLI_NO_AUTO_UPDATE": "1",
    "KIMI_DISABLE_TELEMETRY": "1",
}
"""The switches that the programs document against updates and telemetry: a question for a version needs no network."""


@dataclass(frozen=True, slots=True)
class Said:
    """It ended by itself: exit code (negative: the signal) and what it printed."""

    code: int
    text: str


@dataclass(frozen=True, slots=True)
class Silent:
    """It had not ended in time, and was killed with all it started."""


@dataclass(frozen=True, slots=True)
class NotStarted:
    """The system could not start it; `why` is its reason."""

    why: str


@dataclass(frozen=True, slots=True)
class NotAsked:
    """It is not there, or nobody wanted to know."""


Answer = Said | Silent | NotStarted | NotAsked


@dataclass(frozen=True, slots=True)
class Program:
    """A program by the name that the configuration has for it. `path` is absolute; `closed` is a file that may not be executed."""

    name: str
    path: str | None
    closed: str | None = None


def find_program(name: str, root: Root, caller: Caller, environ: Mapping[str, str]) -> Program:
    """Where a run would find it: a name with a slash is a path, relative to the root; all else is looked for on PATH."""
    if "/" in name:
        path = expand(name, root, caller).io
        if os.path.isfile(path):
            return Program(name, path) if os.access(path, os.X_OK) else Program(name, None, path)
        return Program(name, None)
    search = environ.get("PATH", os.defpath)
    found = shutil.which(name, path=search)
    if found is not None:
        return Program(name, os.path.abspath(root.join(found)))
    places = (os.path.join(folder, name) for folder in search.split(os.pathsep) if os.path.isabs(folder))
    return Program(name, None, next((path for path in places if os.path.isfile(path)), None))


def ask_versions(paths: Sequence[str], environ: Mapping[str, str], seconds: float = SECONDS) -> Mapping[str, Answer]:
    """What each program says to `--version`. Nothing of theirs lives on; they read `/dev/null` and have no terminal."""
    kept = {name: value for name, value in environ.items() if name not in MARKERS}
    asking: list[_Asking] = []
    answers: dict[str, Answer] = {}
    try:
        for path in dict.fromkeys(paths):
            try:
                asking.append(_Asking(path, {**kept, **QUIET}))
            except (OSError, ValueError) as exc:
                answers[path] = NotStarted(getattr(exc, "strerror", None) or str(exc))
        _listen(asking, seconds)
    finally:
        for one in asking:
            answers[one.path] = one.end()
    return answers


def _listen(asking: Sequence[_Asking], seconds: float) -> None:
    """Read what they print until each has ended or the time is over."""
    until = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        for one in asking:
            selector.register(one.fd, selectors.EVENT_READ, one)
        # A program's end is no event of its pipe: something that it started may keep that open.
        while (left := until - time.monotonic()) > 0 and not all(one.has_ended() for one in asking):
            for key, _ in selector.select(min(_TICK, left)):
                if not key.data.read():
                    selector.unregister(key.fd)


class _Asking:
    """One program that was asked. Its leader is not waited for before `end`, so that its group's number stays its own."""

    def __init__(self, path: str, environ: Mapping[str, str]) -> None:
        self.path = path
        self._process = subprocess.Popen(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd="/",
            env=dict(environ),
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self._pipe = self._process.stdout
        self.fd = self._pipe.fileno()
        os.set_blocking(self.fd, False)
        self._output = bytearray()

    def has_ended(self) -> bool:
        """Whether the program itself is dead."""
        return process_start_time(self._process.pid) is None

    def read(self) -> bool:
        """Take what is there; False at the end of its output, or when it has said enough."""
        try:
            data = os.read(self.fd, OUTPUT_LIMIT)
        except BlockingIOError:
            return True
        self._output += data
        return bool(data) and len(self._output) < OUTPUT_LIMIT

    def end(self) -> Answer:
        """What it said. Its group is killed in any case."""
        ended = self.has_ended()
        while ended and self.read():
            if not select_now(self.fd):
                break
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_DEATH)
        self._pipe.close()
        if not ended or self._process.returncode is None:
            return Silent()
        return Said(self._process.returncode, self._output[:OUTPUT_LIMIT].decode("utf-8", "replace"))


def select_now(fd: int) -> bool:
    """Whether the descriptor has something to read at this moment."""
    with selectors.DefaultSelector() as selector:
        selector.register(fd, selectors.EVENT_READ)
        return bool(selector.select(0))

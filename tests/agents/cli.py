"""One agent CLI: where its program is, what its home must hold, its command lines.

The command lines are written out here a second time on purpose, beside `cueloop_daemon.runners`: recordings made with them say what the
CLIs do, not what we think of them.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

MODULES = Path(__file__).parent / "node_modules"
MACHINE = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}.get(platform.machine().lower(), "unknown")
SYSTEM = "darwin" if sys.platform == "darwin" else "linux"

Line = Mapping[str, object]
"""One JSON object of a stream."""


@dataclass(frozen=True)
class Place:
    """Where one CLI lives for one test: its home, the folder it works in, and the stand-in's port."""

    home: Path
    project: Path
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@dataclass(frozen=True)
class Call:
    """One command line after the program's name; `stdin` None: /dev/null."""

    argv: tuple[str, ...]
    stdin: str | None = None


@dataclass(frozen=True)
class Cli:
    """One CLI, as `make agents` installs it.

    `lay` writes what its home needs and gives the variables that lead it to the stand-in; `login_variables` and `login_files` (under
    the home) are its login, `memory` the files and folders (globs under the home) that hold its conversations. `find_id` gives a
    conversation's id from a finished stream; `absent` and `malformed` are ids it refuses. `handle` turns an id into what the resume
    command line takes (pi: the path of a file). `choose` is the fresh command line with an id of ours. `reaches` matches the addresses that
    it tries to reach with every documented switch off. `from_pypi`: the version, where it is no npm package.
    """

    name: str
    package: str
    program: Path
    model: str
    lay: Callable[[Place], Mapping[str, str]]
    fresh: Callable[[Place, str], Call]
    resume: Callable[[Place, str, str], Call]
    find_id: Callable[[Iterable[Line]], str | None]
    absent: str
    malformed: str
    memory: tuple[str, ...]
    login_variables: frozenset[str] = frozenset()
    login_files: tuple[str, ...] = ()
    handle: Callable[[Place, str], str] = lambda place, conversation: conversation
    choose: Callable[[Place, str, str], Call] | None = None
    reaches: str = ""
    from_pypi: str = ""

    @property
    def runner(self) -> str:
        """The runner that drives it: `kimi` for the old generation `kimi-1` too."""
        return self.name.partition("-")[0]

    @property
    def version(self) -> str:
        """As installed. Raises FileNotFoundError before `make agents`."""
        if self.from_pypi:
            return self.from_pypi
        return str(json.loads((MODULES / self.package / "package.json").read_text())["version"])

    def file(self, place: Place, conversation: str) -> str | None:
        """The file that stands for the conversation on the resume command line; None: the id itself does."""
        handle = self.handle(place, conversation)
        return handle if handle != conversation else None


def json_lines(output: str) -> list[Line]:
    """The JSON objects among the lines of `output`; other lines are passed over."""
    found: list[Line] = []
    for line in output.splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


def first(lines: Iterable[Line], kind: str, key: str) -> str | None:
    """`key` of the first line whose `type` is `kind`."""
    return next((str(line[key]) for line in lines if line.get("type") == kind and key in line), None)


def node_folder() -> Path:
    """The folder of a node new enough for every CLI, from npm like the CLIs themselves. Raises FileNotFoundError if there is none."""
    for name in (f"node-{SYSTEM}-{MACHINE}", f"node-bin-{SYSTEM}-{MACHINE}"):
        if (MODULES / name / "bin/node").exists():
            return MODULES / name / "bin"
    raise FileNotFoundError(f"no node for {SYSTEM} {MACHINE} in {MODULES}: run make agents")


def path_of(programs: Path) -> str:
    """PATH of the CLIs: the folder of the programs, node's, and the system's."""
    return os.pathsep.join((str(programs), str(node_folder()), "/usr/local/bin", "/usr/bin", "/bin"))


def write_file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)

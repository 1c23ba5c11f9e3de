"""A repository and an environment of its own for each test."""

from __future__ import annotations

import glob
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cueloop_protocol.place import local_folder, root_hash
from cueloop_protocol.roots import Root, open_root


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder with a short path: a socket's path has to fit."""
    folder = Path(tempfile.mkdtemp(prefix="clt")).resolve()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def environ(short: Path) -> dict[str, str]:
    """An environment whose runtime folder is the test's own."""
    (short / "run").mkdir(mode=0o700)
    (short / "home").mkdir()
    return {"XDG_RUNTIME_DIR": str(short / "run"), "HOME": str(short / "home"), "PATH": os.environ["PATH"], "TMPDIR": str(short)}


@pytest.fixture
def root(short: Path) -> Iterator[Root]:
    """A repository with a queue; what a start leaves in the user's folder is removed."""
    (short / "repo/.cueloop").mkdir(parents=True)
    (short / "repo/.cueloop/queue.jsonc").write_text('{"version": 1, "tasks": []}')
    found = open_root(str(short / "repo"))
    yield found
    for left in glob.glob(f"{local_folder(os.getuid())}/{root_hash(found)}*"):
        if os.path.isfile(left):
            os.unlink(left)


class FakeStarts:
    """The daemon that `launch` starts here is the fake one; what it starts is ended with the test."""

    def __init__(self, root: Root) -> None:
        self._root = root

    def plan(self, **plan: object) -> None:
        """How the next starts go."""
        Path(self._root.join(".cueloop/fake.json")).write_text(json.dumps(plan))

    @property
    def pids(self) -> list[int]:
        """The processes that were started, in order."""
        path = Path(self._root.join(".cueloop/starts"))
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    @property
    def facts(self) -> dict[str, Any]:
        """What the last one saw of its surroundings."""
        facts: dict[str, Any] = json.loads(Path(self._root.join(".cueloop/environment.json")).read_text())
        return facts


@pytest.fixture
def starts(root: Root, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeStarts]:
    def command_line(asked: Root, ready_fd: int) -> list[str]:
        return [sys.executable, str(Path(__file__).with_name("fake_daemon.py")), asked.path, str(ready_fd)]

    monkeypatch.setattr("cueloop_client.spawn.command_line", command_line)
    fake = FakeStarts(root)
    yield fake
    for pid in fake.pids:
        for number in (signal.SIGKILL, signal.SIGCONT):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

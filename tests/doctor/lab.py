"""A healthy repository with agents that are only played, and the doctor's visit to it in this process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from cueloop_client import doctor_ask
from cueloop_client.world import World as ClientWorld
from cueloop_daemon.doctor.asked import Asked
from cueloop_daemon.doctor.examine import doctor
from cueloop_protocol.documents.doctor import DoctorDocument
from cueloop_protocol.place import root_hash
from cueloop_protocol.roots import Root, caller_from_environment, open_root
from cueloop_protocol.version import __version__
from support.repository import IGNORED, Repository, git
from support.world import World

AGENTS = {"pi": "1.6.0", "claude": "2.1.332 (Claude Code)", "codex": "codex-cli 0.171.0"}
SETTLED_WITHIN = 10.0


@dataclass
class Lab:
    """A world whose repository is in git and clean, with nothing on PATH but git and played agents."""

    world: World
    environ: dict[str, str]
    asked: dict[str, Any] = field(default_factory=dict)
    """Put over what the command would say."""
    changed: dict[str, Any] = field(default_factory=dict)
    """Put over what the doctor sees."""
    uid: int = field(default_factory=os.getuid)
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)
    undo: list[Callable[[], object]] = field(default_factory=list)

    @property
    def repository(self) -> Repository:
        return self.world.repository

    @property
    def root(self) -> Root:
        return open_root(str(self.repository.path))

    @property
    def bin(self) -> Path:
        return self.world.folder / "bin"

    @property
    def local(self) -> Path:
        """A folder of locks of the test's own."""
        self.changed["local"] = str(self.world.folder / "local")
        return self.world.folder / "local"

    @property
    def socket(self) -> Path:
        """Where the daemon's socket is, its folder made."""
        folder = self.world.folder / "run" / "cueloopd"
        folder.mkdir(0o700, exist_ok=True)
        place = folder / root_hash(self.root)
        place.mkdir(0o700, exist_ok=True)
        return place / "d.sock"

    def play(self, name: str, source: str) -> Path:
        """Put a program on PATH."""
        path = self.bin / name
        path.write_text(source)
        path.chmod(0o755)
        return path

    def configure(self, **config: object) -> Path:
        """The person's own configuration, which needs no trust."""
        path = self.world.home / ".config/cueloop/config.jsonc"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(config))
        return path

    def child(self) -> int:
        """A process that lives until the test is over."""
        self.children.append(subprocess.Popen(["/bin/sleep", "600"], stdin=subprocess.DEVNULL))
        return self.children[-1].pid

    def dead(self) -> int:
        """The number of a process that lives no more."""
        process = subprocess.Popen(["/bin/true"])
        process.wait(10)
        return process.pid

    def ask(self, seconds: float = 3.0) -> dict[str, Any]:
        """What the command would tell the doctor."""
        client = ClientWorld(
            environ=self.environ, uid=os.getuid(), monotonic=time.monotonic, wall=time.time, write=lambda fd, data: None,
            read_line=lambda: "", is_terminal=lambda fd: False, program="",
        )  # fmt: skip
        met = doctor_ask.daemon_met(self.root, client, seconds)
        return {**met, "version": __version__, "with_agents": False, **self.asked}

    def visit(self, *, seconds: float = 3.0, is_settled: bool = True) -> DoctorDocument:
        """What the doctor finds; `is_settled`: once nothing is being written any more."""
        until = time.monotonic() + SETTLED_WITHIN
        while True:
            asked = Asked.model_validate(self.ask(seconds))
            caller = caller_from_environment(self.environ, str(self.world.home))
            document = doctor(self.root, caller, self.uid, self.environ, str(self.world.home), asked, **self.changed)
            if not is_settled or "session-settling" not in codes(document) or time.monotonic() > until:
                return document


def codes(document: DoctorDocument, *severities: str) -> list[str]:
    """The codes of what was found."""
    return [finding.code for finding in document.findings if not severities or finding.severity in severities]


@cache
def _template() -> Path:
    """A committed repository to copy: git is slow."""
    folder = Path(tempfile.mkdtemp(prefix="cld"))
    (folder / ".gitignore").write_text(IGNORED)
    (folder / ".cueloop/cache").mkdir(parents=True)
    Repository(folder / "sample").lay()
    shutil.move(folder / "sample/.cueloop/queue.jsonc", folder / ".cueloop/queue.jsonc")
    shutil.rmtree(folder / "sample")
    git(folder, "init", "-q", "--template=")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "start")
    return folder


@contextmanager
def laboratory() -> Iterator[Lab]:
    """A healthy one."""
    world = World.make()
    try:
        shutil.rmtree(world.repository.path)
        shutil.copytree(_template(), world.repository.path)
        environ = {**world.environ, "PATH": str(world.folder / "bin")}
        world.environ["PATH"] = environ["PATH"]
        lab = Lab(world, environ)
        lab.bin.mkdir()
        found = shutil.which("git")
        assert found is not None
        (lab.bin / "git").symlink_to(found)
        for name, version in AGENTS.items():
            lab.play(name, f"#!/bin/sh\necho '{version}'\n")
        try:
            yield lab
        finally:
            for act in lab.undo:
                act()
            for child in lab.children:
                child.kill()
                child.wait(10)
    finally:
        world.close()

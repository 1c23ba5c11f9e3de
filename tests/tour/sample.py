"""What a newcomer has: a home, a repository with a queue, an agent (the stand-in), and the wheel with all that it needs beside it."""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib.metadata
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cueloop_protocol.roots import open_root
from support.programs import python_program
from support.repository import IGNORED, Repository
from support.sshd import serving
from support.world import World

ROOT = Path(__file__).resolve().parents[2]
AGENT = Path(__file__).with_name("agent.py")
SECONDS = 300
CONFIG = """{
  "version": 2,
  "agent": {
    "runner": "claude",
    "model": "sonnet",
    "phases": 2,
    "phase_overrides": { "phase1": { "model": "opus" }, "phase2": { "model": "sonnet" } },
    "git_publish_mode": "off"
  }
}
"""
TITLES = ("Greet people by their names", "Say goodbye, too", "Write down how to use it", "Test it")
GITCONFIG = "[user]\n\tname = Newcomer\n\temail = newcomer@example.org\n[init]\n\tdefaultBranch = main\n"
PROGRAM = 'print("Hello.")\n'
NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Sample:
    """The folders. `home` and `runtime` have paths of 14 characters, like what the page has in their places."""

    home: Path
    runtime: Path

    @classmethod
    def make(cls) -> Sample:
        """A home with everything but the program itself."""
        sample = cls(*(Path(tempfile.mkdtemp(prefix="t", dir="/tmp")).resolve() for _ in range(2)))
        (sample.home / "bin").mkdir()
        (sample.home / ".gitconfig").write_text(GITCONFIG)
        python_program(sample.home / "bin/claude", AGENT.read_text(), "-IS")
        (sample.home / "bin/python3").write_text(f'#!/bin/sh\nexec "{_base_python()}" "$@"\n')
        (sample.home / "bin/python3").chmod(0o755)
        sample._lay_repository()
        return sample

    @property
    def repository(self) -> Path:
        return self.home / "greeter"

    @property
    def environ(self) -> dict[str, str]:
        """Nothing of the caller's."""
        path = f"{self.home}/bin:/usr/bin:/bin:/usr/sbin"
        return {
            "PATH": path, "HOME": str(self.home), "XDG_RUNTIME_DIR": str(self.runtime), "LANG": "C.UTF-8", "NO_COLOR": "1",
            "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.home / "wheels"), "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_CACHE_DIR": "1", "GIT_CONFIG_NOSYSTEM": "1", "XDG_CONFIG_HOME": str(self.home / ".config"),
            "CUELOOP_SSH": f"ssh -F {self.home}/ssh/config",
        }  # fmt: skip

    def put_wheels(self) -> None:
        """Build the wheel into the home, and what it needs into a folder from which pip installs without a network."""
        build = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(self.home), str(ROOT)]
        subprocess.run(build, cwd="/", capture_output=True, timeout=SECONDS, check=True)
        (self.home / "wheels").mkdir()
        for name in needed("cueloopd"):
            pack(importlib.metadata.distribution(name), self.home / "wheels")

    @contextmanager
    def box(self) -> Iterator[None]:
        """For the block, `ssh box` leads to this home again, by a real sshd on loopback with throw-away keys."""
        with serving(_AtHome(self.home, self.environ, Repository(self.repository))):
            far = self.home / ".local/bin/cueloop"
            far.write_text(f'#!/bin/sh\nexec {self.home}/cueloop/bin/cueloop "$@"\n')
            yield

    def put_command(self) -> None:
        """Instead of installing: `cueloop` is the command beside this interpreter."""
        (self.home / "bin/cueloop").symlink_to(Path(sys.executable).with_name("cueloop"))

    def close(self) -> list[int]:
        """End the daemons, remove the folders; the daemons that were still there."""
        left = World(self.home, self.environ, Repository(self.repository)).close()
        shutil.rmtree(self.runtime, ignore_errors=True)
        return left

    def _lay_repository(self) -> None:
        folder = self.repository / ".cueloop"
        folder.mkdir(parents=True)
        (folder / "config.jsonc").write_text(CONFIG)
        (folder / "queue.jsonc").write_text(queue_text())
        (self.repository / "greet.py").write_text(PROGRAM)
        (self.repository / ".gitignore").write_text(IGNORED)
        for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "A program that greets"]):
            subprocess.run(["git", *arguments], cwd=self.repository, env=self.environ, timeout=SECONDS, check=True)
        open_root(str(self.repository))


class _AtHome(World):
    """A world whose folder is the home itself."""

    @property
    def home(self) -> Path:
        return self.folder


def queue_text() -> str:
    """The queue of the sample: three tasks, each on a line."""
    stamps = {"created_at": "2026-01-15T09:00:00Z", "updated_at": "2026-01-15T09:00:00Z"}
    rows = [json.dumps({"id": f"RQ-{at:04d}", "title": title} | stamps) for at, title in enumerate(TITLES, 1)]
    return '{ "version": 1, "tasks": [\n  ' + ",\n  ".join(rows) + "\n] }\n"


def needed(name: str) -> set[str]:
    """The distributions that this one needs here, and those that they need, without itself."""
    found, waiting = set[str](), [name]
    while waiting:
        for requirement in importlib.metadata.requires(waiting.pop()) or []:
            named, _, marker = requirement.partition(";")
            needs = NAME.match(named)
            if needs and "extra ==" not in marker and needs[0] not in found and _is_here(needs[0]):
                found.add(needs[0])
                waiting.append(needs[0])
    return found


def pack(installed: importlib.metadata.Distribution, folder: Path) -> None:
    """Make a wheel again of what an installer unpacked; without compiled caches and scripts."""
    tag = re.findall(r"^Tag: (\S+)", installed.read_text("WHEEL") or "", re.M)[0]
    files = [path for path in installed.files or [] if path.parts[0] != ".." and path.suffix != ".pyc"]
    (info,) = {path.parts[0] for path in files if path.parts[0].endswith(".dist-info")}
    rows = io.StringIO()
    record = csv.writer(rows, lineterminator="\n")
    name = info.removesuffix(".dist-info")
    with zipfile.ZipFile(folder / f"{name}-{tag}.whl", "w", zipfile.ZIP_STORED) as wheel:
        for path in files:
            if path.name in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json"):
                continue
            data = Path(str(path.locate())).read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.writerow((path.as_posix(), f"sha256={digest}", len(data)))
            wheel.writestr(path.as_posix(), data)
        record.writerow((f"{info}/RECORD", "", ""))
        wheel.writestr(f"{info}/RECORD", rows.getvalue())


def _is_here(name: str) -> bool:
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _base_python() -> str:
    return os.path.realpath(getattr(sys, "_base_executable", sys.executable))

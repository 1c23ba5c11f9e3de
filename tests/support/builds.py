"""Building sdist and wheel from the files of this repository, in folders of the test's own."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SECONDS = 120
COMMIT_DATE = "2026-02-07T10:35:00Z"
IDENTITY = {
    **{f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (("NAME", "T"), ("EMAIL", "t@example.org"))},
    "GIT_AUTHOR_DATE": COMMIT_DATE, "GIT_COMMITTER_DATE": COMMIT_DATE, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1",
}  # fmt: skip


@cache
def home() -> str:
    """An empty home until this process ends. One that does not exist is made by some programs of the PATH (rustup's, for one)."""
    made = tempfile.mkdtemp(prefix="clh")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def environment(**more: str) -> dict[str, str]:
    """Nothing of the caller's but the PATH."""
    return {"PATH": os.environ["PATH"], "HOME": home(), **more}


def git(folder: Path, *arguments: str) -> str:
    """What git says in this folder."""
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=environment(**IDENTITY), capture_output=True, timeout=SECONDS, check=True
    )
    return done.stdout.decode().strip()


def committed(folder: Path) -> Path:
    """The folder, as a repository with one commit."""
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "All of it")
    return folder


@cache
def sources() -> list[str]:
    """The files of this repository that are not ignored, also those that are not committed yet; works in an unpacked sdist, too."""
    if (ROOT / ".git").exists():
        names = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            timeout=SECONDS,
            check=True,
        ).stdout
        return sorted(name for name in os.fsdecode(names).split("\0") if name and (ROOT / name).is_file())
    made = {"PKG-INFO", "protocol/cueloop_protocol/_build.py"}
    found = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
    return sorted(str(path) for path in found if str(path) not in made and not path.match("*.pyc") and not is_made(path.parts))


def is_made(parts: tuple[str, ...]) -> bool:
    """Whether a tool made the file while it ran here."""
    return bool({"__pycache__", ".venv", ".pytest_cache", ".hypothesis", "node_modules"} & set(parts))


@dataclass(frozen=True)
class Build:
    """What a build gave, and the tree that it was made from."""

    tree: Path
    sdist: Path
    wheel: Path


def build(tree: Path, out: Path, *kinds: str, umask: int, environ: Mapping[str, str]) -> Build:
    """Build in this environment, without a network."""
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", *kinds, "--outdir", str(out), str(tree)],
        env=environ, umask=umask, capture_output=True, timeout=SECONDS, check=True, cwd="/",
    )  # fmt: skip
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    return Build(tree, sdist, wheel)

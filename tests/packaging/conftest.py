"""One build for all tests here: twice, in two folders, under different circumstances."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.builds import ROOT, Build, build, committed, environment, sources


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for the builds, removed at the end."""
    made = tmp_path_factory.mktemp("packaging")
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="session")
def builds(folder: Path) -> tuple[Build, Build]:
    """A wheel from the sdist, and a wheel straight from the tree: other folder, other file times and modes, other umask, other zone."""
    one, two = folder / "one", folder / "the other one"
    for name in sources():
        for tree in (one, two):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, tree / name)
        os.utime(two / name, (1_000_000_000, 1_000_000_000))
        executable = os.access(ROOT / name, os.X_OK)
        (one / name).chmod(0o755 if executable else 0o664)
        (two / name).chmod(0o700 if executable else 0o600)
    first = build(committed(one), folder / "dist", umask=0o002, environ=environment(TZ="Pacific/Auckland", LANG="C"))
    cached = two / "client/cueloop_client/__pycache__"
    cached.mkdir()
    (cached / "main.cpython-311.pyc").write_bytes(b"stale")
    (two / "tests/agents/node_modules").mkdir()
    (two / "tests/agents/node_modules/x.js").write_text("x")
    kinds = ("--sdist", "--wheel")
    second = build(committed(two), folder / "again", *kinds, umask=0o077, environ=environment(LANG="C.UTF-8"))
    return first, second

"""A world for each test, and whatever it started ended afterwards."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from shim.shim_process import World


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A short path of ours alone: a socket's path is limited."""
    folder = Path(tempfile.mkdtemp(prefix="shim-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def world(tmp_path: Path, sockets: Path) -> Iterator[World]:
    world = World(tmp_path, sockets)
    yield world
    world.close()

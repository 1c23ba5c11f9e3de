"""A world for each test, and whatever it started ended afterwards."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
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
def make_world(tmp_path: Path, sockets: Path) -> Iterator[Callable[..., World]]:
    """Makes the test's one world, with other words in its `run.json`."""
    made: list[World] = []

    def make(**spec: object) -> World:
        made.append(World(tmp_path, sockets, **spec))
        return made[-1]

    yield make
    for world in made:
        world.close()


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    """A world as it usually is."""
    return make_world()

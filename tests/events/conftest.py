"""A world for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from events.hubs import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    folder = tmp_path / "cueloopd"
    folder.mkdir()
    return World(folder)

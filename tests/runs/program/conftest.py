"""Whole runs are played on asyncio alone, unless a test asks for both: the journal's own laws are tested on both elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(params=["asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> object:
    return request.param


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the repository is; not made yet."""
    return tmp_path / "repository"

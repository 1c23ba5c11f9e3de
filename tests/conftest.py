"""Shared by all tests: asynchronous tests run on asyncio and on trio."""

from __future__ import annotations

import pytest


@pytest.fixture(params=[pytest.param(("asyncio", {}), id="asyncio"), pytest.param(("trio", {}), id="trio")])
def anyio_backend(request: pytest.FixtureRequest) -> object:
    return request.param

"""Shared by all tests: asynchronous tests run on asyncio and on trio; workers run tests at the same time, but for some."""

from __future__ import annotations

import signal
from collections.abc import Generator

import pytest

from support.alone import Room


@pytest.fixture(params=[pytest.param(("asyncio", {}), id="asyncio"), pytest.param(("trio", {}), id="trio")])
def anyio_backend(request: pytest.FixtureRequest) -> object:
    return request.param


def pytest_configure(config: pytest.Config) -> None:
    # Whoever starts the tests in the background of a shell has them ignore Ctrl-C, and so would every program they start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # nohup
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    config.addinivalue_line("markers", "alone: no other worker runs a test meanwhile (support/alone.py)")
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(Worker())


class Worker:
    """One of several processes that run tests."""

    def __init__(self) -> None:
        self._room = Room()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        with self._room.entered(alone=item.get_closest_marker("alone") is not None):
            return (yield)

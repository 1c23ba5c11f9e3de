"""Fixtures for tests of the whole daemon."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.wire import Wire
from support.world import Daemon, World


@pytest.fixture
def world() -> Iterator[World]:
    """A repository and an environment of the test's own. Whatever still runs at the end is ended."""
    world = World.make()
    try:
        yield world
    finally:
        world.close()
    assert world.daemons() == []


@pytest.fixture
def daemon(world: World) -> Iterator[Daemon]:
    """A running daemon. It must still run when the test is over, and leave no traceback behind."""
    daemon = world.start(at_home=True)
    yield daemon
    _has_left_well(daemon)


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[World, Daemon]]:
    """A world and its daemon for all tests of a module that leave no trace in them."""
    world = World.make()
    try:
        daemon = world.start(at_home=True)
        yield world, daemon
        _has_left_well(daemon)
    finally:
        world.close()
    assert world.daemons() == []


@pytest.fixture
def wire(daemon: Daemon) -> Iterator[Wire]:
    """A connection to the daemon."""
    with daemon.connect() as wire:
        yield wire


def _has_left_well(daemon: Daemon) -> None:
    assert daemon.process.poll() is None, f"the daemon died: {daemon.stderr.read_text()}"
    code, said = daemon.stop(), daemon.stderr.read_text()
    assert (code, said) == (0, ""), f"exit {code}: {said}"

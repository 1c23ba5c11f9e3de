"""Another machine for the tests of a module: a world, and an sshd that lets one in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.sshd import Sshd, serving
from support.world import World


@pytest.fixture(scope="module")
def box() -> Iterator[Sshd]:
    """The machine, whose daemon is started by whoever needs it. At the end nothing of a test is left there."""
    world = World.make()
    try:
        with serving(world) as sshd:
            yield sshd
    finally:
        world.close()
    assert world.daemons() == []

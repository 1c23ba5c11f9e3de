"""A daemon from start to end, as processes see it."""

from __future__ import annotations

from support.repository import session
from support.wire import Wire
from support.world import Daemon, World


def test_a_daemon_serves_and_leaves_nothing(world: World, daemon: Daemon, wire: Wire) -> None:
    world.repository.put(world.repository.session, session())
    found = wire.call("config.resolve", caller=world.caller)
    assert found["document"]["resume_preview"]["reason"] == "session_valid"
    assert world.daemons() == [daemon.pid]

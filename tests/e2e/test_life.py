"""A daemon from start to end, as processes see it."""

from __future__ import annotations

from pathlib import Path

from cueloop_daemon.housekeeping import EVERY
from support.repository import session
from support.wire import Wire, wait_for
from support.world import Daemon, World


def test_a_daemon_serves_and_leaves_nothing(world: World, daemon: Daemon, wire: Wire) -> None:
    world.repository.put(world.repository.session, session())
    found = wire.call("config.resolve", caller=world.caller)
    assert found["document"]["resume_preview"]["reason"] == "session_valid"
    assert world.daemons() == [daemon.pid]


def test_nothing_that_a_leaving_daemon_took_away_is_put_back(world: World) -> None:
    """It waits for a peer that does not read, and looks around meanwhile."""
    daemon = world.start(at_home=True)
    locator = world.repository.folder / "cache/cueloopd/locator.json"
    with daemon.connect() as stuck:
        stuck.fill()
        assert locator.exists()
        with daemon.connect() as other:
            wait_for(lambda: other.call("daemon.status")["uptime_seconds"] % EVERY > EVERY - 0.6, "it is about to look")
        daemon.stop()
    assert not locator.exists()
    assert not Path(daemon.socket).exists()
    assert "socket_restored" not in (world.repository.folder / "cache/cueloopd/daemon.log").read_text()

"""Upgrades under load, a few of them; `python tests/upgrade/upgrades.py` makes fifty."""

from __future__ import annotations

from support.world import World
from upgrade.upgrades import play


def test_d12_an_upgrade_loses_no_event_no_call_and_no_run(world: World) -> None:
    seen = play(world, 2)
    assert (seen.refused, seen.lost, seen.differing()) == ([], [], [])
    assert (seen.outcome, len(set(seen.pids))) == ("ran", 3)
    assert len(seen.reference) > 3
    assert {reason for subscriber in seen.subscribers for reason in subscriber.reasons} <= {"replaced", "cut"}

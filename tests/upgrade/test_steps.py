"""A handover in which either side is killed, or stops, at each of its steps: somebody serves afterwards, and only one."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cueloop_daemon.takeover.probes import HEIR_STEPS, OWNER_STEPS
from support.wire import SECONDS, Wire, wait_for
from support.world import PROBED, Daemon, DidNotStart, World
from upgrade.traffic import Caller

LEFT_ALONE = ("asked", "answered")
"""The owner has given nothing yet: when it is killed, who waits is cut off, as by every crash."""
UNCHANGED = ("asking", "promised", "took")
"""The owner has not heard that it was taken: without its heir it goes on."""


def start(world: World, *, heir: bool = False, **probe: object) -> Daemon:
    """A daemon with a hand in it; `heir`: it takes over."""
    more = ("--take-over", "leave") if heir else ()
    return world.start(at_home=True, program=PROBED, more=more, environ={"PROBE": json.dumps(probe)})


@contextmanager
def calling(daemon: Daemon) -> Iterator[Caller]:
    """Somebody calls all the time, with a new connection for each call."""
    caller, is_over = Caller(daemon.socket), threading.Event()
    thread = threading.Thread(target=caller.run, args=(is_over,))
    thread.start()
    try:
        yield caller
    finally:
        is_over.set()
        thread.join(60)


def epoch(path: str) -> str:
    with Wire(path) as wire:
        found: str = wire.call("events.subscribe")["cursor"].partition(":")[0]
        return found


def serves(world: World, daemon: Daemon) -> None:
    """This one serves, and is the only one."""
    with Wire(daemon.socket) as wire:
        assert wire.call("daemon.status")["pid"] == daemon.pid
    assert world.daemons() == [daemon.pid]


@pytest.mark.parametrize("step", OWNER_STEPS)
def test_the_owner_is_killed(world: World, step: str) -> None:
    owner = start(world, step=step, signal=signal.SIGKILL)
    kept = epoch(owner.socket)
    with calling(owner) as caller:
        heir = start(world, heir=True)
        assert owner.process.wait(SECONDS) == -signal.SIGKILL
        serves(world, heir)
    assert epoch(heir.socket) == kept
    if step not in LEFT_ALONE:
        assert caller.refused == []
    if step in ("closed", "told", "seen_off"):
        assert caller.lost == []


@pytest.mark.parametrize("step", HEIR_STEPS)
def test_the_heir_is_killed(world: World, step: str) -> None:
    owner = start(world)
    kept = epoch(owner.socket)
    with calling(owner) as caller:
        with pytest.raises(DidNotStart) as failed:
            start(world, heir=True, step=step, signal=signal.SIGKILL)
        assert failed.value.code == -signal.SIGKILL
        if step in UNCHANGED:
            serves(world, owner)
        else:
            assert owner.process.wait(SECONDS) == (0 if step == "said" else 1)
            owner = start(world)
            serves(world, owner)
    if step != "said":  # after that it is a daemon like any other that is killed
        assert caller.lost == []
    assert epoch(owner.socket) == kept
    if step in UNCHANGED:
        assert caller.refused == []


def test_an_owner_that_stops_on_the_way_is_ended(world: World) -> None:
    owner = start(world, step="going", signal=signal.SIGSTOP, numbers={"succession.LEAVES_WITHIN": 0.5})
    kept = epoch(owner.socket)
    with calling(owner) as caller:
        heir = start(world, heir=True, numbers={"inheritance.BEYOND": 0.2})
        assert owner.process.wait(SECONDS) == -signal.SIGKILL
        serves(world, heir)
    assert (caller.refused, epoch(heir.socket)) == ([], kept)


def test_an_heir_that_stops_on_the_way_is_ended_and_who_waits_is_told(world: World) -> None:
    owner = start(world, numbers={"bequest.SERVING_SECONDS": 0.5})
    with calling(owner) as caller:
        with pytest.raises(DidNotStart) as failed:
            start(world, heir=True, step="free", signal=signal.SIGSTOP)
        assert failed.value.code == -signal.SIGKILL
        assert owner.process.wait(SECONDS) == 1
        serves(world, start(world))
    assert caller.lost == []


def test_an_owner_that_says_nothing_stays(world: World) -> None:
    owner = start(world)
    owner.send(signal.SIGSTOP)
    try:
        with pytest.raises(DidNotStart) as failed:
            start(world, heir=True, numbers={"asking.ANSWER_SECONDS": 0.3})
    finally:
        owner.send(signal.SIGCONT)
    assert (failed.value.code, failed.value.said["stays"]["why"]) == (4, "silent")
    serves(world, owner)


def test_an_owner_that_does_not_know_how_is_named_as_old(world: World) -> None:
    owner = start(world, without=["daemon.handover"])
    with pytest.raises(DidNotStart) as failed:
        start(world, heir=True)
    assert failed.value.said["stays"]["why"] == "old"
    serves(world, owner)
    restarted = world.run("daemon", "restart", "--json")
    assert (restarted.returncode, json.loads(restarted.stdout)["how"]) == (0, "restart")


def test_of_two_heirs_one_waits_for_the_other(world: World) -> None:
    owner = start(world)
    found: list[Daemon] = []
    with calling(owner) as caller:
        threads = [threading.Thread(target=lambda: found.append(start(world, heir=True))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(found) == 2
        wait_for(lambda: len(world.daemons()) == 1, "the first has seen the second off")
        assert world.daemons()[0] in [daemon.pid for daemon in found]
    assert (caller.refused, caller.lost) == ([], [])


def test_a_successor_that_cannot_start_leaves_everything_as_it_was(world: World) -> None:
    owner = start(world)
    settings = world.home / ".config/cueloop/cueloopd.jsonc"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"idle_exit_minutes": "soon"}')
    with pytest.raises(DidNotStart) as failed:
        start(world, heir=True)
    assert (failed.value.code, failed.value.said["error"]["code"]) == (1, "config_incompatible")
    serves(world, owner)

"""A handover in which either side is killed, or stops: somebody serves afterwards, and only one."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable

import pytest

from cueloop_client.outside import seen_from_outside
from support.wire import SECONDS, wait_for
from support.world import Daemon, DidNotStart, World
from upgrade.steps import calling, epoch, heir_killed, owner_killed, serves, start


@pytest.mark.parametrize("step", ["answered", "offered", "going", "closed", "seen_off"])
def test_the_owner_is_killed(world: World, step: str) -> None:
    """One of each kind; `steps.py` has all."""
    owner_killed(world, step)


@pytest.mark.parametrize("step", ["promised", "took", "waiting", "bound", "said"])
def test_the_heir_is_killed(world: World, step: str) -> None:
    heir_killed(world, step)


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


@pytest.mark.parametrize(
    ("step", "said"), [("free", "is being replaced by process {}"), ("bound", "takes over from another just now")]
)
def test_a_list_says_that_a_daemon_is_being_replaced(world: World, step: str, said: str) -> None:
    owner, heirs = start(world), list[Daemon]()
    thread = threading.Thread(target=lambda: heirs.append(start(world, heir=True, step=step, signal=signal.SIGSTOP)))
    thread.start()
    wait_for(lambda: any(is_stopped(pid) for pid in world.daemons()), "the heir stops on the way")
    (heir,) = (pid for pid in world.daemons() if pid != owner.pid)
    try:
        rows = json.loads(world.run("--timeout", "0.5", "daemon", "list", "--json").stdout)["daemons"]
        text = world.run("--timeout", "0.5", "daemon", "list").stdout.decode()
    finally:
        os.kill(heir, signal.SIGCONT)
        thread.join(60)
    (row,) = (row for row in rows if row["repository"] == str(world.repository.path))
    assert (row["state"], row["heir"]) == ("not answering", heir)
    assert said.format(heir) in text.partition(f"{world.repository.path}\n")[2].partition("\n")[0]
    assert owner.process.wait(SECONDS) == 0
    serves(world, heirs[0])
    rows = json.loads(world.run("daemon", "list", "--json").stdout)["daemons"]
    assert [row for row in rows if row["repository"] == str(world.repository.path) and "heir" in row] == []


def is_stopped(pid: int) -> bool:
    return seen_from_outside(pid).condition == "stopped by a signal"


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


def test_an_heir_whose_owner_has_just_left_for_another_asks_that_one(world: World) -> None:
    owner, late = start(world), list[Daemon]()
    thread = threading.Thread(target=lambda: late.append(start(world, heir=True, step="asking", signal=signal.SIGSTOP)))
    thread.start()
    first = go_on_when_stopped(world, lambda: start(world, heir=True))
    assert owner.process.wait(SECONDS) == 0
    go_on_when_stopped(world, lambda: None)  # it is connected to the next one, and has not asked yet
    thread.join(60)
    assert first is not None
    assert first.process.wait(SECONDS) == 0
    serves(world, late[0])


def go_on_when_stopped(world: World, meanwhile: Callable[[], Daemon | None]) -> Daemon | None:
    """Wait for a daemon that has stopped itself, do this, and let it go on."""
    wait_for(lambda: any(is_stopped(pid) for pid in world.daemons()), "a daemon stops itself")
    (stopped,) = (pid for pid in world.daemons() if is_stopped(pid))
    try:
        return meanwhile()
    finally:
        os.kill(stopped, signal.SIGCONT)


def test_a_successor_that_cannot_start_leaves_everything_as_it_was(world: World) -> None:
    owner = start(world)
    settings = world.home / ".config/cueloop/cueloopd.jsonc"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"idle_exit_minutes": "soon"}')
    with pytest.raises(DidNotStart) as failed:
        start(world, heir=True)
    assert (failed.value.code, failed.value.said["error"]["code"]) == (1, "config_incompatible")
    serves(world, owner)

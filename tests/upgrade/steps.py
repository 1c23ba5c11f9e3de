"""Either side of a handover killed at one of its steps. `python tests/upgrade/steps.py` does all of them; the suite does one of a kind."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from cueloop_daemon.takeover.probes import HEIR_STEPS, OWNER_STEPS
from support.wire import SECONDS, Wire
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


def owner_killed(world: World, step: str) -> None:
    """The heir serves, in the same epoch; from its offer on the owner's death refuses nobody."""
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


def heir_killed(world: World, step: str) -> None:
    """The owner goes on; or, once it has begun to leave, answers everybody who waits, and the next daemon starts in the same epoch."""
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


def main() -> int:
    failed = 0
    for kill, steps in ((owner_killed, OWNER_STEPS), (heir_killed, HEIR_STEPS)):
        for step in steps:
            world = World.make()
            try:
                kill(world, step)
            except AssertionError as exc:
                failed += 1
                print(f"NO {kill.__name__} {step}: {str(exc).partition(chr(10))[0]}")
            else:
                print(f"ok {kill.__name__} {step}")
            finally:
                world.close()
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())

"""Upgrades under load: `python tests/upgrade/upgrades.py [N]` replaces the daemon N times (50) and judges what everybody saw.

Eight subscribers and four callers, who make a new connection for each call, in both framings; one run whose agent writes all the
time. Nothing may be refused, lost or told twice, the epoch stays, and the run ends as it should.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.runs import Stage, finished, nothing_left, start
from support.wire import Wire
from support.world import World
from upgrade.traffic import Caller, Note, Subscriber, essence, percentile

SUBSCRIBERS, CALLERS = 8, 4
ACT = """
begin()
number = 0
while not (HERE / "go").exists():
    number += 1
    text(f"line {number}")
    time.sleep(0.02)
text("the last line")
end()
"""


@dataclass
class Upgraded:
    """What was seen."""

    subscribers: list[Subscriber]
    callers: list[Caller]
    blackouts: list[float] = field(default_factory=list)
    """For each upgrade the longest wait of a call that was under way then, in seconds."""
    took: list[float] = field(default_factory=list)
    """Seconds of each `cueloop daemon restart`."""
    pids: list[int] = field(default_factory=list)
    outcome: str = ""
    reference: list[Note] = field(default_factory=list)
    """What the log tells afterwards."""

    @property
    def refused(self) -> list[str]:
        return [error for caller in self.callers for error in caller.refused]

    @property
    def lost(self) -> list[str]:
        return [error for caller in self.callers for error in caller.lost]

    @property
    def calls(self) -> int:
        return sum(len(caller.calls) for caller in self.callers)

    @property
    def repeats(self) -> int:
        return sum(call.repeats for caller in self.callers for call in caller.calls)

    def differing(self) -> list[int]:
        """The subscribers that did not hear exactly what the log has, once and in order."""
        wanted = essence(self.reference)
        return [number for number, subscriber in enumerate(self.subscribers) if essence(subscriber.notes) != wanted]


def play(world: World, times: int) -> Upgraded:
    """Replace the daemon so often and gather what was seen."""
    stage = Stage.make(world, ACT)
    daemon = world.start(at_home=True)
    seen = Upgraded([], [])
    is_over = threading.Event()
    with daemon.connect() as wire:
        begins = wire.subscribe()["cursor"]
        seen.subscribers += [Subscriber(daemon.socket, begins) for _ in range(SUBSCRIBERS)]
        seen.callers += [Caller(daemon.socket) for _ in range(CALLERS)]
        run_id = start(wire, stage)
    threads = [threading.Thread(target=one.run, args=(_has_heard_the_end,)) for one in seen.subscribers]
    threads += [threading.Thread(target=one.run, args=(is_over,)) for one in seen.callers]
    for thread in threads:
        thread.start()
    try:
        stage.was_called()
        seen.pids.append(daemon.pid)
        for _ in range(times):
            _upgrade(world, seen)
    finally:
        stage.make_file("go")
        is_over.set()
    with nothing_left(stage):
        with Wire(daemon.socket) as wire:
            seen.outcome = str(finished(wire, run_id)["summary"]["outcome"])
        for thread in threads:
            thread.join(60)
        reference = Subscriber(daemon.socket, begins)
        reference.run(_has_heard_the_end)
        seen.reference += reference.notes
    return seen


def _has_heard_the_end(subscriber: Subscriber) -> bool:
    return bool(subscriber.notes) and subscriber.notes[-1]["method"] == "run.finished"


def _upgrade(world: World, seen: Upgraded) -> None:
    began = time.monotonic()
    done = world.run("daemon", "restart", "--leave-runs", "--json")
    ended = time.monotonic()
    assert done.returncode == 0, done.stderr.decode()
    told = json.loads(done.stdout)
    assert told["how"] == "handover", told
    seen.pids.append(told["pid"])
    seen.took.append(ended - began)
    # Each caller has been answered by the new daemon once before the next upgrade, so that every wait belongs to one of them.
    until = time.monotonic() + 20
    while any(not caller.calls or caller.calls[-1].began < ended for caller in seen.callers):
        assert time.monotonic() < until, "the callers are not served"
        time.sleep(0.005)
    waits = [call.wait for caller in seen.callers for call in list(caller.calls) if call.ended >= began and call.began <= ended]
    seen.blackouts.append(max(waits))


def main(times: int) -> int:
    world = World.make()
    try:
        seen = play(world, times)
    finally:
        world.close()
    print(f"upgrades           {times}, each by another process: {len(set(seen.pids)) == times + 1}")
    print(f"calls              {seen.calls}, asked anew {seen.repeats}")
    print(f"refused, lost      {len(seen.refused)}, {len(seen.lost)} {(seen.refused + seen.lost)[:3] or ''}")
    print(f"events             {len(seen.reference)}, subscribers who heard anything else: {seen.differing()}")
    print(f"run                {seen.outcome}")
    for name, values in (("blackout", seen.blackouts), ("restart took", seen.took)):
        shown = ", ".join(f"{word} {1000 * percentile(values, share):.0f} ms" for word, share in SHARES)
        print(f"{name:<18} {shown}")
    return bool(seen.refused or seen.lost or seen.differing() or seen.outcome != "ran")


SHARES = (("p50", 0.5), ("p95", 0.95), ("max", 1.0))

if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 50))

"""Subscribers that come, go and stand still, over daemons that are killed: each event once and in order, or one gap."""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import pytest

from cueloop_protocol.notifications import GapNotification
from support.repository import session
from support.wire import Ended, Wire, wait_for
from support.world import Daemon, World

CHANGES = 240
KILLS = 5
LAST = "The last one"

Heard = tuple[str, str]
"""A cursor and what was sent at it."""


def _heard(note: dict[str, Any]) -> Heard:
    params = {key: value for key, value in note["params"].items() if key not in ("subscription", "cursor")}
    return note["params"]["cursor"], json.dumps([note["method"], params])


@dataclass
class Restless:
    """A subscriber that disconnects at random and goes on from its cursor, until it has heard the last event."""

    world: World
    socket: str
    cursor: str
    chance: random.Random
    heard: list[Heard] = field(default_factory=list)
    connections: int = 0

    def run(self) -> None:
        while not (self.heard and LAST in self.heard[-1][1]):
            try:
                with Wire(self.socket) as wire:
                    self._listen(wire)
            except (Ended, ConnectionError, FileNotFoundError):
                time.sleep(0.005)  # the daemon is dead; its successor is on its way

    def _listen(self, wire: Wire) -> None:
        wire.subscribe(caller=self.world.caller, cursor=self.cursor)
        self.connections += 1
        for _ in range(self.chance.randint(0, 12)):
            self.heard.append(_heard(wire.note()))
            self.cursor = self.heard[-1][0]
            if LAST in self.heard[-1][1]:
                return


def test_each_hears_each_event_once_and_in_order_through_disconnects_and_kills(world: World) -> None:
    chance = random.Random(7)
    daemon = world.start(at_home=True)
    with daemon.connect() as wire:
        start = wire.subscribe(caller=world.caller)["cursor"]
    listeners = [Restless(world, daemon.socket, start, random.Random(number)) for number in range(3)]
    threads = [threading.Thread(target=listener.run, daemon=True) for listener in listeners]
    for thread in threads:
        thread.start()
    fatal = set(chance.sample(range(CHANGES), KILLS))
    for number in range(CHANGES):
        world.repository.put(world.repository.session, session(current_phase=1 + number % 3, tasks_completed_in_loop=number))
        time.sleep(chance.uniform(0, 0.01))  # the writer's own pace
        if number in fatal:
            daemon.kill()
            daemon = world.start(at_home=True)
    world.repository.put(world.repository.queue, json.dumps({"version": 1, "tasks": [_task(LAST)]}).encode())
    wait_for(lambda: _is_announced(daemon, world), "the last change is announced")
    world.repository.configure(instruction_files=None, model=LAST)
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    with daemon.connect() as wire:
        wire.subscribe(caller=world.caller, cursor=start)
        truth = [_heard(wire.note())]
        while LAST not in truth[-1][1]:
            truth.append(_heard(wire.note()))
    assert not any('"gap"' in what for _, what in truth)
    assert len({cursor for cursor, _ in truth}) == len(truth) > KILLS * 2
    for listener in listeners:
        assert listener.heard == truth
        assert listener.connections > KILLS
    assert daemon.stop() == 0


def _task(title: str) -> dict[str, object]:
    stamp = "2026-02-07T10:00:00Z"
    return {"id": "RQ-0001", "status": "doing", "title": title, "created_at": stamp, "updated_at": stamp}


def _is_announced(daemon: Daemon, world: World) -> bool:
    with daemon.connect() as wire:
        overview = wire.call("workspace.overview", caller=world.caller)["document"]
    return bool(overview["queue"]["active"]["tasks"][0]["title"] == LAST)


def test_a_cursor_of_another_epoch_or_beyond_the_end_is_one_gap_with_a_snapshot(world: World, daemon: Daemon, wire: Wire) -> None:
    here = wire.subscribe(caller=world.caller)["cursor"]
    epoch, seq = here.split(":")
    for cursor in (f"{'0' * len(epoch)}:1", f"{epoch}:{int(seq) + 1000}"):
        with daemon.connect() as other:
            other.subscribe(caller=world.caller, cursor=cursor, kinds=["warning"])
            gap = other.note()
            assert gap["method"] == "gap"
            GapNotification.model_validate_json(json.dumps(gap["params"]))
            assert gap["params"]["from"] == cursor
            assert gap["params"]["snapshot"]["document"]["version"] == 5
            world.repository.configure(session_timeout_hours=int(seq) + len(cursor))
            wire.event()
            assert other.is_quiet(0.05)  # filtered, and no second gap
            here = wire.call("daemon.status")["events"]["last_seq"]
            assert gap["params"]["to"].startswith(f"{epoch}:")
            assert int(gap["params"]["to"].split(":")[1]) <= here


class Crowd:
    """A change each time, heard by one who listens."""

    def __init__(self, world: World, wire: Wire) -> None:
        self._world = world
        self._wire = wire
        self._hours = 1

    def change(self) -> float:
        """Change the configuration; seconds until it was heard."""
        self._hours += 1
        began = time.monotonic()
        self._world.repository.configure(session_timeout_hours=self._hours)
        event = self._wire.event()
        assert event["payload"]["config"]["config"]["agent"]["session_timeout_hours"] == self._hours
        return time.monotonic() - began


@pytest.mark.alone
def test_a_subscriber_that_stands_still_costs_nothing_and_delays_nobody_d16(world: World, daemon: Daemon, wire: Wire) -> None:
    wire.subscribe(caller=world.caller)
    crowd = Crowd(world, wire)
    alone = [crowd.change() for _ in range(300)]
    out = world.folder / "followed"
    with out.open("wb") as file:
        follower = subprocess.Popen(
            [sys.executable, "-P", "-m", "cueloop_client", "events", "--follow", "--json"],
            stdout=file, stdin=subprocess.DEVNULL, cwd=world.repository.path, env=world.environ,
        )  # fmt: skip
    try:
        wait_for(lambda: wire.call("daemon.status")["subscribers"] == 2, "the follower is subscribed")
        crowd.change()
        wait_for(lambda: out.stat().st_size > 0, "the follower hears")
        os.kill(follower.pid, signal.SIGSTOP)
        before = daemon.resident()
        beside = [crowd.change() for _ in range(300)]
        assert daemon.resident() - before < 1024 * 1024
        assert statistics.median(beside) < 2 * statistics.median(alone) + 0.01
        assert wire.call("daemon.status")["counters"]["lagging"] == 1
        os.kill(follower.pid, signal.SIGCONT)
        wait_for(lambda: out.read_bytes().count(b"\n") == 301, "the follower hears the rest")
        hours = [json.loads(line)["event"]["payload"]["config"]["config"]["agent"] for line in out.read_text().splitlines()]
        assert [agent["session_timeout_hours"] for agent in hours] == list(range(302, 603))
        follower.send_signal(signal.SIGINT)
        assert follower.wait(20) == 130
        wait_for(lambda: wire.call("daemon.status")["subscribers"] == 1, "the follower is forgotten")
    finally:
        follower.kill()
        follower.wait()


def test_a_follower_goes_on_over_a_deleted_cache_folder_c06(world: World) -> None:
    """Our lock goes with the folder: the daemon leaves, the follower starts another one and hears what is true now."""
    world.repository.put(world.repository.session, session())
    follower = world.spawn("events", "--follow", "--json")
    assert follower.stdout is not None
    wait_for(lambda: len(world.daemons()) == 1, "the daemon starts")
    (first,) = world.daemons()
    wait_for(lambda: b'"subscribers": 1' in world.run("daemon", "status", "--json").stdout, "it is subscribed")
    subprocess.run(["rm", "-rf", str(world.repository.cache)], check=True)
    world.repository.cache.mkdir(exist_ok=True)
    world.repository.put(world.repository.session, session(current_phase=3))
    for line in follower.stdout:
        note = json.loads(line)
        told = note.get("snapshot", {}).get("document", {}).get("resume_preview") or note.get("event", {}).get("payload", {})
        if "phase 3" in str(told.get("detail")):
            break
    wait_for(lambda: first not in world.daemons(), "the first daemon has left")
    wait_for(lambda: len(world.daemons()) == 1, "there is one daemon again")
    follower.kill()

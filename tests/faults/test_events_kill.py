"""A hundred thousand events, three subscribers that hang up a thousand times, a daemon that is killed twenty times.

Each subscriber hears each event that it wants once and in order, or one gap over what cannot be told any more. Real processes,
SIGKILL, a real socket; kills are placed by how far a subscriber has come, so that they always hit a daemon at work.
"""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from cueloop_protocol.cursor import Cursor
from faults.events_driver import Client, Daemon

EVENTS = 100_000
KILLS = 20
HANG_UPS = 1_000


@dataclass(frozen=True)
class Outcome:
    clients: list[Client]
    start: Cursor
    ends_at_kill: list[int]


def play(folder: Path, limit: int, events: int, kills: int, hang_ups: int) -> Outcome:
    """Publish it all through `kills` + 1 lives of the daemon while three clients listen."""
    luck = random.Random(6)
    daemon = Daemon(folder, limit)
    start = daemon.start()
    wishes: list[list[str] | None] = [None, None, ["queue_snapshot"]]
    clients = [
        Client(daemon, start, events - 1, hang_ups // 3 + (seed < hang_ups % 3), kinds, seed) for seed, kinds in enumerate(wishes)
    ]
    threads = [threading.Thread(target=client.run, daemon=True) for client in clients]
    for thread in threads:
        thread.start()
    ends = []
    end = start
    for life in range(kills):
        portion = (events - end.seq) // (kills + 1 - life)
        daemon.say(f"publish {portion} 0")
        luck.choice(clients).until(end.seq + luck.randrange(portion // 10, portion - 10))
        daemon.kill()
        end = daemon.start()
        ends.append(end.seq)
    daemon.ask(f"publish {events - end.seq} 0")
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    daemon.stop()
    return Outcome(clients, start, ends)


def wanted(client: Client, seq: int) -> bool:
    return client.kinds is None or seq % 2 == 1


def check(client: Client, start: Cursor, events: int) -> int:
    """Every wanted event once, in order, and as it was published; how many gaps there were."""
    at, gaps = start, 0
    for method, params in client.heard:
        cursor = Cursor.parse(params["cursor"])
        if method == "gap":
            gaps += 1
            assert params["to"] == params["cursor"]
            since = Cursor.parse(params["from"])
            assert since.epoch == at.epoch
            assert not any(wanted(client, seq) for seq in range(at.seq + 1, since.seq + 1))
            assert cursor.seq >= since.seq
        else:
            assert cursor.epoch == at.epoch
            assert [seq for seq in range(at.seq + 1, cursor.seq + 1) if wanted(client, seq)] == [cursor.seq]
            assert params["event"]["message"] == str(cursor.seq)
        at = cursor
    assert not any(wanted(client, seq) for seq in range(at.seq + 1, events))
    return gaps


def test_nothing_is_lost_or_repeated_over_kills_and_hang_ups(tmp_path: Path) -> None:
    outcome = play(tmp_path, 64 * 1024 * 1024, EVENTS, KILLS, HANG_UPS)
    assert [check(client, outcome.start, EVENTS) for client in outcome.clients] == [0, 0, 0]
    assert sum(client.hung_up for client in outcome.clients) == HANG_UPS
    assert all(client.lost >= 1 for client in outcome.clients)
    assert outcome.ends_at_kill == sorted(set(outcome.ends_at_kill))
    assert len(outcome.ends_at_kill) == KILLS


def test_what_retention_took_is_one_gap_each_time_and_nothing_else_is(tmp_path: Path) -> None:
    outcome = play(tmp_path, 128 * 1024, EVENTS // 10, KILLS // 4, HANG_UPS // 10)
    for client in outcome.clients:
        gaps = check(client, outcome.start, EVENTS // 10)
        assert gaps <= client.hung_up + client.lost + len(client.heard) // 100
    assert not list(tmp_path.glob("*.damaged-*"))


@pytest.mark.parametrize("life", [1, 2])
def test_a_killed_daemon_tells_its_successor_where_it_was(tmp_path: Path, life: int) -> None:
    daemon = Daemon(tmp_path)
    start = daemon.start()
    for number in range(1, life + 1):
        assert daemon.ask("publish 10 0") == f"published {10 * number}"
        daemon.kill()
        assert daemon.start() == Cursor(start.epoch, 10 * number)
    daemon.stop()

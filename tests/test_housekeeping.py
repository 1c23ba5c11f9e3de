"""When a daemon counts as idle."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import anyio
import pytest

from cueloop_daemon import housekeeping
from cueloop_daemon.housekeeping import Housekeeping
from cueloop_daemon.server.listener import Listener
from cueloop_daemon.service.standing import listens
from cueloop_daemon.store.ownership import Ownership
from cueloop_protocol.roots import Root
from cueloop_protocol.shapes import ShutdownReason
from fake_clock import FakeClock


class House(Housekeeping):
    """Its look at the world is left out, and each takes a minute."""

    def __init__(self, clock: FakeClock) -> None:
        nothing = cast(Ownership, None), cast(Listener, None)
        super().__init__(Root("/", "/"), *nothing, self.go, lambda _: None)
        self.clock = clock
        self.left: list[ShutdownReason] = []
        self.going = anyio.Event()

    def go(self, reason: ShutdownReason) -> None:
        self.left.append(reason)
        self.going.set()

    def look(self, now: float) -> None:
        self.clock.advance(60)


@pytest.mark.parametrize(
    ("traffic", "minutes"),
    [([(0, 7)], 31), ([(1, 8)] * 10 + [(0, 8)], 41), ([(0, number) for number in range(20)], 50)],
    ids=["nobody comes", "one is there for a while", "many come and go between two looks"],
)
async def test_who_was_there_between_two_looks_counts_too(
    traffic: list[tuple[int, int]], minutes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "EVERY", 0)
    clock = FakeClock()
    house = House(clock)
    begun = clock.monotonic()
    told: Iterator[tuple[int, int]] = iter(traffic)

    def now() -> tuple[int, int]:
        return next(told, traffic[-1])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(house.run, clock, lambda: 30, now, lambda: False)
        await house.going.wait()
        tasks.cancel_scope.cancel()
    assert house.left[0] == "idle"
    assert (clock.monotonic() - begun) // 60 == pytest.approx(minutes, abs=2)


async def test_a_run_or_a_question_keeps_the_daemon_though_nobody_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "EVERY", 0)
    clock = FakeClock()
    house = House(clock)
    begun = clock.monotonic()

    def is_busy() -> bool:
        return clock.monotonic() - begun < 10 * 3600

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(house.run, clock, lambda: 30, lambda: (0, 1), is_busy)
        await house.going.wait()
        tasks.cancel_scope.cancel()
    assert (clock.monotonic() - begun) // 60 == pytest.approx(630, abs=2)


async def test_zero_minutes_mean_never(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "EVERY", 0)
    clock = FakeClock()
    house = House(clock)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(house.run, clock, lambda: 0, lambda: (0, 1), lambda: False)
        while clock.monotonic() < 1000 + 20 * 3600:
            await anyio.sleep(0)
        tasks.cancel_scope.cancel()
    assert house.left == []


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of a repository and of two sockets."""
    folder = tmp_path_factory.mktemp("h")
    for name in ("repo/.cueloop", "run", "tmp"):
        (folder / name).mkdir(parents=True)
    return folder


class Ours(Ownership):
    """Nobody takes it away."""

    def __init__(self) -> None:
        pass

    def still_ours(self) -> bool:
        return True


def house_of(place: Path, listener: Listener) -> tuple[Housekeeping, list[ShutdownReason], list[str]]:
    """What it left for, and where it said the socket is."""
    left, told = list[ShutdownReason](), list[str]()
    root = Root(str(place / "repo"), str(place / "repo"))
    house = Housekeeping(root, Ours(), listener, left.append, told.append, lambda: str(place / "tmp/d.sock"))
    return house, left, told


async def test_a_socket_whose_folder_has_gone_moves(place: Path) -> None:
    """The runtime folder goes with the last logout, and a run may be active."""
    listener = Listener.bind(str(place / "run/d.sock"))
    house, left, told = house_of(place, listener)
    house.look(0.0)
    shutil.rmtree(place / "run")
    house.look(2.0)
    assert (left, told) == ([], [str(place / "run/d.sock"), str(place / "tmp/d.sock")])
    assert listens(listener.path)
    listener.close()


async def test_a_socket_whose_name_another_took_is_left_to_that_one(place: Path) -> None:
    """A service manager unlinks what stands at its path, and listens there itself: no war about a name."""
    path = str(place / "run/d.sock")
    listener = Listener.bind(path)
    house, left, told = house_of(place, listener)
    os.unlink(path)
    with socket.socket(socket.AF_UNIX) as manager:
        manager.bind(path)
        manager.listen()
        house.look(0.0)
        assert (left, told) == (["replaced"], [])
    listener.close()


async def test_a_name_at_which_nobody_listens_is_ours_again(place: Path) -> None:
    path = str(place / "run/d.sock")
    listener = Listener.bind(path)
    house, left, told = house_of(place, listener)
    os.unlink(path)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)
    house.look(0.0)
    assert (left, told, listens(path)) == ([], [path], True)
    listener.close()


async def test_where_no_place_is_left_it_leaves(place: Path) -> None:
    listener = Listener.bind(str(place / "run/d.sock"))
    house, left, _ = house_of(place, listener)
    shutil.rmtree(place / "run")
    shutil.rmtree(place / "tmp")
    house.look(0.0)
    assert left == ["replaced"]
    listener.close()

"""Commands of a caller that has closed standard streams: a program without a terminal, a careless wrapper."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from support.world import World


@pytest.fixture
def world() -> Iterator[World]:
    world = World.make()
    yield world
    world.close()


def call(world: World, closed: tuple[int, ...], *argv: str) -> tuple[int, float]:
    """The exit code, and how long it took."""

    def close() -> None:
        for number in closed:
            os.close(number)

    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-P", "-m", "cueloop_client", *argv],
        cwd=world.repository.path, env=world.environ, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, preexec_fn=close, timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, time.monotonic() - began


@pytest.mark.parametrize("closed", [(0, 1, 2), (1,), (0, 2)])
def test_a_daemon_starts_is_replaced_and_is_stopped(world: World, closed: tuple[int, ...]) -> None:
    for argv, count in ((("daemon", "start"), 1), (("daemon", "restart"), 1), (("session", "show"), 1), (("daemon", "stop"), 0)):
        code, seconds = call(world, closed, *argv)
        assert code == 0, argv
        assert seconds < 25, argv  # it does not wait for a ready line that went elsewhere
        if not count:
            assert world.daemons() == []
    assert (world.repository.ours / "daemon.log").read_text().count('"event": "serving"') == 2


def test_cueloopd_by_hand_keeps_its_files_from_those_numbers(world: World) -> None:
    def close() -> None:
        for number in (0, 1, 2):
            os.close(number)

    process = world.start(before=close)
    try:
        assert {os.readlink(f"/proc/{process.pid}/fd/{number}") for number in (0, 1, 2)} == {os.devnull}
    finally:
        assert process.stop() == 0

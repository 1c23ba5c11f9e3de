"""However many callers come at once, and whatever a dead daemon left behind: one daemon, and the right answer for each."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cueloop_protocol.place import local_lock_path
from cueloop_protocol.roots import open_root
from support.repository import session
from support.stampede import stampede
from support.wire import wait_for
from support.world import World

MANY = 30
SCRIPT = Path(__file__).with_name("stampede.py")
TESTS = Path(__file__).parents[1]


@pytest.fixture
def warm(world: World) -> World:
    """A world with a session, whose daemon was started by a command."""
    world.repository.put(world.repository.session, session())
    assert world.run("daemon", "start").returncode == 0
    assert len(world.daemons()) == 1
    return world


def _stampede(world: World, number: int = MANY) -> int:
    found = stampede(world, number)
    assert found.wrong == {}
    assert found.right == number
    (pid,) = found.daemons
    return pid


@pytest.mark.alone
def test_a_hundred_cold_callers_start_one_daemon() -> None:
    environ = {**os.environ, "PYTHONPATH": str(TESTS)}
    done = subprocess.run([sys.executable, "-P", str(SCRIPT), "100"], env=environ, capture_output=True, timeout=120)
    assert done.stdout.decode().splitlines()[0] == "100 right, 0 wrong, 1 daemon(s)", done.stdout + done.stderr


def test_after_kill_9_of_the_daemon_d01_f02(warm: World) -> None:
    (before,) = warm.daemons()
    os.kill(before, signal.SIGKILL)
    assert _stampede(warm) != before


def test_with_a_stale_socket_and_a_stale_lock_file_d01(warm: World) -> None:
    (before,) = warm.daemons()
    os.kill(before, signal.SIGKILL)
    wait_for(lambda: warm.daemons() == [], "the end of the daemon")
    repository, root = warm.repository, open_root(str(warm.repository.path))
    local = Path(local_lock_path(root, os.getuid()))
    for file in (repository.ours / "lock", local):
        file.write_text("pid: 1\nstart: 1\nboot: 1\n")
    (place,) = (warm.folder / "run").glob("cueloopd/*/d.sock")
    place.unlink()
    with socket.socket(socket.AF_UNIX) as abandoned:
        abandoned.bind(str(place))  # bound, and nobody listens any more
    assert _stampede(warm) != before


def test_with_the_socket_unlinked_under_a_live_daemon_d08(warm: World) -> None:
    (before,) = warm.daemons()
    (place,) = (warm.folder / "run").glob("cueloopd/*/d.sock")
    place.unlink()
    assert _stampede(warm) == before
    assert place.is_socket()


def test_with_the_locator_and_the_socket_gone_d08(warm: World) -> None:
    (before,) = warm.daemons()
    (place,) = (warm.folder / "run").glob("cueloopd/*/d.sock")
    place.unlink()
    (warm.repository.ours / "locator.json").unlink()
    assert _stampede(warm) == before


def test_with_our_folder_deleted_under_a_live_daemon_d08(warm: World) -> None:
    """The lock is gone with it: the old daemon leaves by itself, and never are there two that own the repository."""
    (before,) = warm.daemons()
    warm.run("session", "show")
    subprocess.run(["rm", "-rf", str(warm.repository.cache)], check=True)
    warm.repository.cache.mkdir()
    warm.repository.put(warm.repository.session, session())
    wait_for(lambda: before not in warm.daemons(), "the old daemon leaves")
    assert _stampede(warm) != before

"""A daemon from start to end, as processes see it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from cueloop_daemon.housekeeping import EVERY
from cueloop_protocol.place import local_folder, root_hash
from cueloop_protocol.roots import open_root
from support.repository import session
from support.wire import Wire, wait_for
from support.world import Daemon, World


def test_a_daemon_serves_and_leaves_nothing(world: World, daemon: Daemon, wire: Wire) -> None:
    world.repository.put(world.repository.session, session())
    found = wire.call("config.resolve", caller=world.caller)
    assert found["document"]["resume_preview"]["reason"] == "session_valid"
    assert world.daemons() == [daemon.pid]


def test_nothing_that_a_leaving_daemon_took_away_is_put_back(world: World) -> None:
    """It waits for a peer that does not read, and looks around meanwhile."""
    daemon = world.start(at_home=True)
    locator = world.repository.folder / "cache/cueloopd/locator.json"
    with daemon.connect() as stuck:
        stuck.fill()
        assert locator.exists()
        with daemon.connect() as other:
            wait_for(lambda: other.call("daemon.status")["uptime_seconds"] % EVERY > EVERY - 0.6, "it is about to look")
        daemon.stop()
    assert not locator.exists()
    assert not Path(daemon.socket).exists()
    assert "socket_restored" not in (world.repository.folder / "cache/cueloopd/daemon.log").read_text()


def test_a_copied_repository_has_a_daemon_of_its_own(world: World) -> None:
    copy = world.folder / "copy"
    assert world.run("daemon", "start").returncode == 0
    shutil.copytree(world.repository.path, copy, symlinks=True, ignore=lambda folder, names: {"d.sock"} & set(names))
    shown = world.run("session", "show", cwd=copy)
    assert (shown.returncode, shown.stderr) == (0, b"")
    assert len(world.daemons()) == 2
    for path in (world.repository.path, copy):
        assert world.run("daemon", "stop", cwd=path).returncode == 0


def test_after_a_move_the_first_command_has_its_answer(world: World) -> None:
    """The old daemon still holds the lock, notices that its repository is gone, and leaves; the command waits for no more."""
    moved = world.folder / "moved"
    assert world.run("daemon", "start").returncode == 0
    (old,) = world.daemons()
    world.repository.path.rename(moved)
    shown = world.run("session", "show", cwd=moved)
    assert (shown.returncode, shown.stderr) == (0, b"")
    (new,) = world.daemons()
    assert new != old
    assert world.run("daemon", "stop", cwd=moved).returncode == 0


def test_what_starting_left_in_the_user_s_folders_goes_with_the_daemon(world: World) -> None:
    name = root_hash(open_root(str(world.repository.path)))
    folders = [Path(local_folder(os.getuid())), Path(world.environ["XDG_RUNTIME_DIR"], "cueloopd")]

    def ours() -> list[str]:
        return sorted(path.name for folder in folders for path in folder.glob(f"{name}*"))

    assert world.run("daemon", "start").returncode == 0
    assert ours() == sorted([name, f"{name}.lock", f"{name}.start", f"{name}.stderr"])
    assert '"serving' in (world.repository.ours / "daemon.log").read_text()
    assert world.run("daemon", "stop").returncode == 0
    assert ours() == []

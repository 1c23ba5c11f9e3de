"""A whole daemon that a service manager starts when somebody connects."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cueloop_daemon.store.ownership import Ownership
from cueloop_protocol.identity import boot_id, process_start_time
from cueloop_protocol.place import FOLDER, LOCATOR, Locator, local_folder, locator_bytes, root_hash
from cueloop_protocol.roots import open_root
from support.activator import Activator
from support.fixtures import world as world
from support.wire import Ended, Refused, Wire, wait_for
from support.world import World


def test_the_first_request_starts_it_and_the_manager_is_told_all(world: World) -> None:
    """READY with what it does, at the moment of the first answer; STOPPING; the name and the queue stay with the manager."""
    with Activator(world) as manager:
        with Wire(manager.path) as wire:
            status = wire.call("daemon.status")
        assert (status["origin"], status["pid"], status["paths"]["socket"]) == ("systemd", manager.started[0].pid, manager.path)
        assert manager.await_note(lambda note: note.startswith("READY=1\nSTATUS=no run since "))
        assert manager.stopped() == 0
        assert manager.await_note(lambda note: note == "STOPPING=1\nSTATUS=leaving: stopped")
        assert Path(manager.path).is_socket()
        with Wire(manager.path) as wire:
            assert wire.call("daemon.status")["pid"] == manager.started[1].pid


def test_who_comes_while_it_leaves_is_served_by_the_next_one(world: World) -> None:
    with Activator(world) as manager:
        with Wire(manager.path) as wire:
            wire.call("ping")
            wire.call("daemon.shutdown")
        callers = [world.spawn("session", "show") for _ in range(6)]
        for caller in callers:
            assert caller.communicate(timeout=60)[1] == b""
            assert caller.returncode == 0
        assert len(manager.started) == 2


def test_stop_ends_the_daemon_and_nobody_else(world: World) -> None:
    """The kernel names the manager as the peer of the first connections; signals go to whom the daemon names."""
    with Activator(world) as manager:
        assert world.run("session", "show").returncode == 0
        assert world.run("daemon", "status").returncode == 0
        done = world.run("daemon", "stop")
        assert (done.returncode, done.stderr) == (0, b"")
        assert manager.started[0].wait(20) == 0
        # Looking wakes nobody.
        assert world.run("daemon", "status").returncode == 3
        assert world.run("daemon", "stop").stdout == b"No daemon runs here.\n"
        assert len(manager.started) == 1
        done = world.run("daemon", "start", "--json")
        assert json.loads(done.stdout)["pid"] == manager.started[1].pid
        done = world.run("daemon", "restart", "--json")
        assert json.loads(done.stdout)["pid"] == manager.started[2].pid
        assert world.run("daemon", "stop").returncode == 0


def test_a_change_of_settings_is_a_reload(world: World) -> None:
    with Activator(world) as manager, Wire(manager.path) as wire:
        wire.call("ping")
        folder = world.home / ".config/cueloop"
        folder.mkdir(parents=True)
        (folder / "cueloopd.jsonc").write_text('{"log_level": "debug"}')
        manager.await_note(lambda note: note.startswith("RELOADING=1\nMONOTONIC_USEC="))
        wait_for(
            lambda: [note for note in manager.notes if "READY" in note or "RELOADING" in note][-1] == "READY=1", "READY again"
        )


def test_the_watchdog_hears_of_it_and_ends_it_so_that_the_journal_says_where(world: World) -> None:
    with Activator(world, watchdog=0.3) as manager, Wire(manager.path) as wire:
        wire.call("ping")
        wait_for(lambda: manager.notes.count("WATCHDOG=1") >= 3, "signs of life")
        # As systemd does it to one that hangs: where it hung is in the journal.
        os.kill(manager.started[0].pid, signal.SIGABRT)
        assert manager.started[0].wait(20) == -signal.SIGABRT
        assert "most recent call first" in manager.log.read_text()


def test_who_waits_at_a_start_that_fails_hears_why(world: World) -> None:
    """Both framings, also who says nothing; a process that failed does not leave with the queue full."""
    folder = world.home / ".config/cueloop"
    folder.mkdir(parents=True)
    (folder / "cueloopd.jsonc").write_text("{ nonsense")
    with Activator(world) as manager:
        with Wire(manager.path) as wire, Wire(manager.path) as silent, socket.socket(socket.AF_UNIX) as editor:
            error = turned_away(wire)
            assert "cannot be used" in error["message"]
            assert error["data"]["error"]["code"] == "config_incompatible"
            assert b"cannot be used" in silent.sock.recv(4096)
            editor.settimeout(20)
            editor.connect(manager.path)
            editor.sendall(b'Content-Length: 4\r\n\r\n{"a"')
            assert editor.recv(4096).startswith(b"Content-Length: ")
        done = world.run("daemon", "start")
        assert (done.returncode, b"cannot be used" in done.stderr) == (1, True)
        assert world.run("daemon", "status").returncode == 3
        assert len(manager.started) == 1
        (folder / "cueloopd.jsonc").unlink()
        manager.started[0].terminate()
        with Wire(manager.path) as wire:
            assert wire.call("daemon.status")["origin"] == "systemd"


def test_a_socket_of_another_name_is_refused_by_name(world: World) -> None:
    with Activator(world, name="http") as manager, Wire(manager.path) as wire:
        assert turned_away(wire)["message"].startswith("One socket named 'cueloopd' was to be passed")
        assert not (world.repository.ours / LOCATOR).exists()


def test_a_daemon_that_a_command_started_makes_room(world: World) -> None:
    """A command in another environment (cron) started one elsewhere; the manager's takes its place, and nobody is refused."""
    elsewhere = {"XDG_RUNTIME_DIR": ""}
    stranger = world.start(at_home=True, environ=elsewhere)
    with Activator(world) as manager, Wire(manager.path) as wire:
        status = wire.call("daemon.status")
        assert (status["origin"], stranger.process.wait(20)) == ("systemd", 0)
        # And such a command now finds this one.
        assert json.loads(world.run("daemon", "status", "--json", environ=elsewhere).stdout)["pid"] == status["pid"]


def turned_away(wire: Wire) -> dict[str, Any]:
    """The error that a connection gets which is not served, whatever it asks."""
    wire.send(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
    answer = wire.answer()
    assert answer["id"] is None
    error: dict[str, Any] = answer["error"]
    return error


@contextmanager
def newer_owner(world: World) -> Iterator[None]:
    """A daemon of a later version owns the repository: this very process."""
    root = open_root(str(world.repository.path))
    ownership = Ownership.acquire(root, os.getuid())
    assert isinstance(ownership, Ownership)
    folder = Path(local_folder(os.getuid()), root_hash(root))
    folder.mkdir(mode=0o700)
    started = process_start_time(os.getpid()) or ""
    locator = Locator(f"{folder}/d.sock", os.getpid(), started, boot_id(), os.uname().nodename, "x", "99.0", 1, 1)
    Path(root.join(FOLDER, LOCATOR)).write_bytes(locator_bytes(locator))
    try:
        yield
    finally:
        Path(root.join(FOLDER, LOCATOR)).unlink()
        ownership.release(str(folder))


def test_under_a_newer_owner_it_stands_by_and_takes_over_at_its_end(world: World) -> None:
    """It would bring an older version; to leave would be to be started again at once."""
    with Activator(world) as manager:
        with newer_owner(world):
            with Wire(manager.path) as wire:
                error = turned_away(wire)
            assert error["message"] == f"The repository is served by another daemon (process {os.getpid()})."
            assert error["data"]["error"]["code"] == "resource_busy"
            assert error["data"]["socket"].endswith("/d.sock")
            manager.await_note(lambda note: note.startswith("READY=1\nSTATUS=stands by: process "))
        wait_for(lambda: _is_served(manager), "the takeover")
        assert len(manager.started) == 1


def _is_served(manager: Activator) -> bool:
    try:
        with Wire(manager.path) as wire:
            return bool(wire.call("daemon.status")["origin"] == "systemd")
    except (Refused, Ended, AssertionError):
        return False


def test_one_started_by_hand_leaves_it_to_the_manager(world: World) -> None:
    with Activator(world):
        argv = [sys.executable, "-P", "-m", "cueloop_daemon", "--root", str(world.repository.path)]
        done = subprocess.run(argv, env=world.environ, capture_output=True, timeout=30, check=False)
        assert (done.returncode, b"a service manager listens" in done.stderr) == (0, True)
        assert world.run("session", "show").returncode == 0


def test_a_name_that_was_removed_is_replaced_by_one_elsewhere(world: World) -> None:
    """Nobody else would: the manager does not look, and the daemon would be unreachable for ever."""
    with Activator(world) as manager, Wire(manager.path) as wire:
        wire.call("ping")
        os.unlink(manager.path)
        root = open_root(str(world.repository.path))
        other = Path(local_folder(os.getuid()), root_hash(root), "d.sock")
        wait_for(other.is_socket, "the other name")
        wait_for(lambda: str(other).encode() in world.run("daemon", "status", "--json").stdout, "the command finds it")
        wire.call("ping")  # and who was connected still is
        manager.stopped()
        assert not other.exists()


def test_systemd_s_own_activator_starts_it(world: World) -> None:
    """Where the system has it: what is said above of our stand-in, once with the real one."""
    tool = shutil.which("systemd-socket-activate")
    with Activator(world) as manager:
        path = manager.path
    assert not Path(path).exists()
    if tool is None:
        return
    argv = [tool, f"--listen={path}", "--fdname=cueloopd", *(f"--setenv={name}={value}" for name, value in world.environ.items())]
    program = [sys.executable, "-P", "-m", "cueloop_daemon", "--root", str(world.repository.path)]
    process = subprocess.Popen([*argv, *program], env=world.environ, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    try:
        wait_for(Path(path).is_socket, "the socket")
        os.chmod(os.path.dirname(path), 0o700)
        done = world.run("session", "show")
        assert (done.returncode, done.stderr) == (0, b"")
        assert json.loads(world.run("daemon", "status", "--json").stdout)["origin"] == "systemd"
        assert world.run("daemon", "stop").returncode == 0
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait(20)

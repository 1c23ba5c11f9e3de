"""Failures that users of comparable software have met, tried on the whole daemon (`docs/cases.md` lists them all)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from support.repository import Repository, git, session
from support.wire import Refused, Wire, wait_for
from support.world import Daemon, World


def _preview(wire: Wire, world: World) -> dict[str, Any]:
    found: dict[str, Any] = wire.call("config.resolve", caller=world.caller)["document"]["resume_preview"]
    return found


@pytest.mark.parametrize("zone", ["Asia/Shanghai", "America/Los_Angeles", "UTC"])
def test_the_zone_of_the_daemon_decides_nothing_a21(world: World, zone: str) -> None:
    daemon = world.start(at_home=True, environ={"TZ": zone})
    with daemon.connect() as wire:
        for age, reason in (
            (timedelta(hours=23, minutes=59), "session_valid"),
            (timedelta(hours=24, minutes=1), "session_timed_out_requires_confirmation"),
        ):
            moment = datetime.now(UTC) - age
            east = moment.astimezone(timezone(timedelta(hours=8)))
            texts = (moment.strftime("%Y-%m-%dT%H:%M:%SZ"), east.isoformat(), moment.strftime("%Y-%m-%dT%H:%M:%S-00:00"))
            for text in texts:
                world.repository.put(world.repository.session, session(last_updated_at=text))
                assert _preview(wire, world)["reason"] == reason, text
    assert daemon.stop() == 0


@pytest.mark.parametrize("ahead", [timedelta(minutes=6), timedelta(hours=25), timedelta(days=20_000)])
def test_a_stamp_far_ahead_needs_a_person_and_is_told_as_such_a20(world: World, wire: Wire, ahead: timedelta) -> None:
    world.repository.put(world.repository.session, session(-ahead))
    found = _preview(wire, world)
    assert (found["status"], found["reason"]) == ("refusing_to_resume", "session_timed_out_requires_confirmation")
    assert "-" not in found["detail"].split("hour")[0][-6:]
    world.repository.put(world.repository.session, session(-timedelta(seconds=90)))
    assert _preview(wire, world)["reason"] == "session_valid"


def test_an_explicit_task_wins_over_an_old_session_and_nothing_is_deleted_a27(world: World, wire: Wire) -> None:
    data = session(timedelta(hours=30))
    world.repository.put(world.repository.session, data)
    other = wire.call("resume.preview", request={"mode": "one", "task_id": "RQ-0002"}, caller=world.caller)["decision"]
    assert other["reason"] == "explicit_task_selection_overrides_session"
    for request in ({"mode": "one"}, {"mode": "loop"}, {"mode": "resume"}, {"mode": "one", "resume": True}):
        decision = wire.call("resume.preview", request=request, caller=world.caller)["decision"]
        assert decision["status"] == "refusing_to_resume"
    assert world.repository.session.read_bytes() == data


def test_looking_leaves_bytes_inode_and_times_a30(world: World, wire: Wire) -> None:
    world.repository.put(world.repository.session, session())
    before = world.repository.session.stat()
    for number in range(100):
        wire.call("config.resolve", caller=world.caller, exact=number % 50 == 0)
        wire.call("resume.preview", request={"mode": "one"}, caller=world.caller)
    after = world.repository.session.stat()
    assert (before.st_ino, before.st_mtime_ns, before.st_ctime_ns) == (after.st_ino, after.st_mtime_ns, after.st_ctime_ns)


@pytest.mark.parametrize("task_id", ["", "   ", None, "rq-0001", " RQ-0001 "])
def test_an_id_that_is_blank_matches_nothing_a17(world: World, wire: Wire, task_id: str | None) -> None:
    world.repository.put(world.repository.session, session(task_id=task_id))
    found = _preview(wire, world)
    expected = {"rq-0001": "session_stale", " RQ-0001 ": "session_valid"}.get(task_id or "", "session_cache_corrupt")
    assert found["reason"] == expected


def test_files_of_others_beside_it_are_never_read_nor_removed_a07(world: World) -> None:
    world.repository.cache.mkdir(exist_ok=True)
    names = ["session.jsonc.tmp", "tmpAB12", "session.jsonc___jb_tmp___", "4913", "session.jsonc~", ".session.jsonc.swp"]
    for name in names:
        (world.repository.cache / name).write_bytes(session())
    daemon = world.start(at_home=True)
    with daemon.connect() as wire:
        assert wire.call("session.get", caller=world.caller)["state"] == "missing"
    assert daemon.stop() == 0
    assert set(names) <= set(os.listdir(world.repository.cache))


def test_a_second_daemon_changes_nothing_for_the_first_d02(world: World, daemon: Daemon) -> None:
    socket = Path(daemon.socket)
    inode = socket.stat().st_ino
    second = subprocess.run(
        [sys.executable, "-P", "-m", "cueloop_daemon", "--root", str(world.repository.path)],
        env=world.environ, capture_output=True, timeout=30,
    )  # fmt: skip
    assert second.returncode == 3
    assert f"pid {daemon.pid}".encode() in second.stderr
    assert socket.stat().st_ino == inode
    with daemon.connect() as wire:
        assert wire.call("ping") == {}


def test_a_daemon_that_is_told_to_leave_tells_its_clients_and_takes_its_places_along_d14(world: World) -> None:
    daemon = world.start(at_home=True)
    with daemon.connect() as wire:
        wire.call("ping")
        assert daemon.stop() == 0
        note = wire.note()
    assert (note["method"], note["params"]["reason"], note["params"]["pid"]) == ("daemon.closing", "stopped", daemon.pid)
    assert not Path(daemon.socket).exists()
    assert not (world.repository.ours / "locator.json").exists()


def test_repositories_that_go_leave_nothing_d11(world: World) -> None:
    daemons = []
    for number in range(5):
        repository = Repository(world.folder / f"tree{number}").lay()
        daemons.append(world.start(repository.path))
    sockets = [Path(daemon.socket) for daemon in daemons]
    for number in range(5):
        subprocess.run(["rm", "-rf", str(world.folder / f"tree{number}")], check=True)
    for daemon in daemons:
        assert daemon.process.wait(20) == 0
    assert not any(socket.exists() for socket in sockets)
    assert world.daemons() == []


@pytest.mark.parametrize("record", ["", "abc", "0", "-1", "1", "99999999999", "{own}", "{sleep}"])
def test_what_lock_files_say_of_pids_decides_nothing_f01(world: World, record: str) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as bystander:
        text = record.format(own=os.getpid(), sleep=bystander.pid)
        world.repository.ours.mkdir(mode=0o700)
        (world.repository.ours / "lock").write_text(f"pid: {text}\n")
        (world.repository.ours / "locator.json").write_text(json.dumps({"pid": text, "socket": "/nowhere"}))
        world.repository.lock.mkdir()
        (world.repository.lock / "owner").write_text(f"pid: {text}\nlabel: run one\n")
        done = world.run("machine", "config", "resolve")
        assert (done.returncode, done.stderr) == (0, b"")
        assert bystander.poll() is None
        assert world.run("daemon", "stop").returncode == 0
        assert bystander.poll() is None
        bystander.kill()


def test_after_kill_9_all_locks_are_free_within_two_seconds_f02(world: World) -> None:
    daemon = world.start()
    daemon.kill()
    began = time.monotonic()
    world.start().stop()
    assert time.monotonic() - began < 4  # two for the lock; a start on a busy machine takes the rest


class TestGit:
    """Git is asked without locks, within a time, and its files are its own."""

    def test_a_leftover_index_lock_is_no_obstacle_and_stays_f08(self, world: World) -> None:
        repository = Repository(world.folder / "git").lay(with_git=True)
        lock = repository.path / ".git/index.lock"
        lock.touch()
        (repository.path / "new").touch()
        index = (repository.path / ".git/index").stat().st_mtime_ns
        found = json.loads(world.run("machine", "config", "resolve", cwd=repository.path).stdout)
        assert found["safety"]["dirty_repo"] is True
        assert lock.exists()
        assert (repository.path / ".git/index").stat().st_mtime_ns == index

    @pytest.mark.parametrize("state", ["empty", "detached", "rebase"])
    def test_unusual_states_are_answered_f08(self, world: World, state: str) -> None:
        repository = Repository(world.folder / "git").lay(with_git=state != "empty")
        if state == "empty":
            git(repository.path, "init", "-q")
        elif state == "detached":
            git(repository.path, "checkout", "-q", "--detach")
        else:
            (repository.path / ".git/rebase-merge").mkdir()
        found = json.loads(world.run("machine", "config", "resolve", cwd=repository.path).stdout)
        assert found["safety"]["dirty_repo"] is (state == "empty")

    @pytest.mark.parametrize("program", [None, "#!/bin/sh\nsleep 600\n"], ids=["missing", "hanging"])
    def test_without_a_git_that_answers_the_rest_is_answered_f08(self, world: World, program: str | None) -> None:
        repository = Repository(world.folder / "git").lay(with_git=True)
        tools = world.folder / "tools"
        tools.mkdir()
        if program is not None:
            (tools / "git").write_text(program)
            (tools / "git").chmod(0o755)
        path = f"{tools}:/nowhere" if program is None else f"{tools}:{world.environ['PATH']}"
        daemon = world.start(repository.path, at_home=True, environ={"PATH": path})
        with daemon.connect() as wire:
            document = wire.call("config.resolve", caller=world.caller, exact=True)["document"]
        assert document["safety"]["dirty_repo"] is False
        assert daemon.stop() == 0


def test_a_hello_without_a_version_is_told_what_is_missing_d12(wire: Wire) -> None:
    with pytest.raises(Refused) as refused:
        wire.call("hello", client={"name": "test"})
    assert refused.value.code == -32602
    assert "protocol" in json.dumps(refused.value.error)
    with pytest.raises(Refused) as refused:
        wire.call("hello", client={"name": "test"}, protocol={"min": 2, "max": 3})
    assert refused.value.code == -32006
    assert refused.value.data["versions"] == {"daemon": {"min": 1, "max": 1}, "client": {"min": 2, "max": 3}}
    assert wire.call("ping") == {}


def test_the_daemon_carries_nothing_of_its_starter_e14(world: World) -> None:
    """Markers of agents and secrets of whoever called first never reach the daemon, and so no run of anybody."""
    done = world.run("daemon", "start", environ={"CLAUDECODE": "1", "CLAUDE_CODE_ENTRYPOINT": "cli", "SECRET_TOKEN": "x"})
    assert done.returncode == 0
    (pid,) = world.daemons()
    environ = Path(f"/proc/{pid}/environ").read_bytes()
    assert b"CLAUDE" not in environ
    assert b"SECRET" not in environ
    wait_for(lambda: world.run("daemon", "stop").returncode == 0, "it stops")

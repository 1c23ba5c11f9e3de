"""`session.clear` against a second writer, by real processes: what is cleared is what was seen, and nobody's bytes are lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cueloop_daemon.store.etag import etag_of_bytes
from support.repository import session
from support.wire import Refused, Wire
from support.world import Daemon, World

ROUNDS = 150
WRITER = """
import json, os, random, sys, time
path, number, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
chance, template = random.Random(seed), sys.stdin.read()
for count in range(number):
    other = f"{path}.{seed}.other"
    with open(other, "w") as file:
        file.write(template.replace("MARK", f"{seed}-{count}"))
    try:
        os.link(other, path)      # never over somebody else's: what this program wrote is nobody's to lose
        print(f"{seed}-{count}", flush=True)
    except FileExistsError:
        pass
    os.unlink(other)
    time.sleep(chance.uniform(0, 0.004))
"""


def test_only_what_was_seen_is_cleared_and_its_bytes_are_kept(world: World, wire: Wire) -> None:
    """Another program puts a session there whenever there is none; each must be found again, in the history or in place."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(world.repository.session), "2000", "3"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert writer.stdin is not None
    assert writer.stdout is not None
    writer.stdin.write(session(session_id="MARK"))
    writer.stdin.close()
    kept: list[bytes] = []
    while len(kept) < ROUNDS:
        found = wire.call("session.get", caller=world.caller)
        if found["state"] == "loaded":
            data = Path(wire.call("session.clear", etag=found["etag"])["history"]).read_bytes()
            assert etag_of_bytes(data) == found["etag"]
            kept.append(data)
        elif writer.poll() is not None:
            break
    writer.kill()
    written = writer.stdout.read().decode().split()
    writer.stdout.close()
    writer.wait()
    left = world.repository.session.read_bytes() if world.repository.session.exists() else b""
    marks = [json.loads(data)["session_id"] for data in (*kept, *([left] if left else []))]
    assert len(kept) > 20
    assert len(set(marks)) == len(marks)
    assert set(written) <= set(marks)


def test_a_writer_that_renames_over_it_keeps_its_own(world: World, wire: Wire) -> None:
    """Between the look and the clearing the other program saves: nothing is done, and the new etag is told."""
    for number in range(50):
        world.repository.put(world.repository.session, session(session_id=f"seen-{number}"))
        seen = wire.call("session.get", caller=world.caller)["etag"]
        theirs = session(session_id=f"theirs-{number}")
        world.repository.put(world.repository.session, theirs)
        with pytest.raises(Refused) as refused:
            wire.call("session.clear", etag=seen)
        assert refused.value.code == -32008
        assert refused.value.data["error"]["code"] == "task_mutation_conflict"
        assert refused.value.data["session_etag"] == etag_of_bytes(theirs)
        assert world.repository.session.read_bytes() == theirs
    assert not (world.repository.ours / "history").exists() or not list((world.repository.ours / "history").glob("*seen*"))


def test_five_clients_at_once_clear_it_once_a06(world: World, daemon: Daemon) -> None:
    for number in range(20):
        world.repository.put(world.repository.session, session(session_id=f"round-{number}"))
        outcomes: list[str | int] = []
        with daemon.connect() as wire:
            etag = wire.call("session.get", caller=world.caller)["etag"]
        threads = [threading.Thread(target=_clear, args=(daemon, etag, outcomes)) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert sorted(map(str, outcomes)) == ["-32008"] * 4 + ["cleared"]


def _clear(daemon: Daemon, etag: str, outcomes: list[str | int]) -> None:
    with daemon.connect() as wire:
        try:
            wire.call("session.clear", etag=etag)
            outcomes.append("cleared")
        except Refused as refused:
            outcomes.append(refused.code)


def test_under_another_tool_s_live_run_it_is_refused(world: World, wire: Wire) -> None:
    world.repository.put(world.repository.session, session())
    etag = wire.call("session.get", caller=world.caller)["etag"]
    world.repository.take_lock("run loop", os.getpid())
    with pytest.raises(Refused) as refused:
        wire.call("session.clear", etag=etag)
    assert (refused.value.code, refused.value.data["error"]["code"]) == (-32009, "resource_busy")
    assert refused.value.data["error"]["retryable"] is True
    assert str(os.getpid()) in refused.value.error["message"]
    world.repository.release_lock()
    assert wire.call("session.clear", etag=etag)["task_id"] == "RQ-0001"


def test_a_cleared_session_is_announced_and_can_be_cleared_but_once(world: World, wire: Wire) -> None:
    world.repository.put(world.repository.session, session())
    wire.subscribe(caller=world.caller)
    etag = wire.call("session.get", caller=world.caller)["etag"]
    found = wire.call("session.clear", etag=etag)
    assert json.loads(Path(found["history"]).read_bytes())["task_id"] == "RQ-0001"
    event = wire.event()
    assert event["kind"] == "config_resolved"
    assert "resume_preview" not in event["payload"]["config"]
    with pytest.raises(Refused, match="-32008"):
        wire.call("session.clear", etag=etag)


def test_an_acknowledged_clearing_survives_kill_9(world: World) -> None:
    for number in range(3):
        world.repository.put(world.repository.session, session(session_id=f"mine-{number}"))
        daemon = world.start(at_home=True)
        with daemon.connect() as wire:
            etag = wire.call("session.get", caller=world.caller)["etag"]
            history = wire.call("session.clear", etag=etag)["history"]
        daemon.kill()
        assert json.loads(Path(history).read_bytes())["session_id"] == f"mine-{number}"
        assert not world.repository.session.exists()

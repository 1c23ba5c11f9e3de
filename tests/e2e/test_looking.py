"""Looking at real daemons: listed, dumped and measured, alive, stopped and dead."""

from __future__ import annotations

import json
import signal
import time
from typing import Any

from cueloop_protocol.dump_results import DumpResult
from support.fixtures import world as world
from support.repository import Repository
from support.world import World


def listed(world: World, *more: str) -> dict[str, dict[str, Any]]:
    """The daemons below this world's folder, by repository."""
    done = world.run("daemon", "list", "--json", *more, cwd="/")
    assert (done.returncode, done.stderr) == (0, b"")
    rows = json.loads(done.stdout)["daemons"]
    return {row["repository"]: row for row in rows if (row["repository"] or "").startswith(str(world.folder))}


def dumped(world: World, *more: str) -> dict[str, Any]:
    done = world.run("debug", "dump", "--output", "-", *more, environ={"SOME_KEY": "planted-4711-value"})
    assert (done.returncode, done.stderr) == (0, b"")
    document: dict[str, Any] = json.loads(done.stdout)
    DumpResult.model_validate_json(json.dumps(document["dump"]))
    return document


def test_daemons_are_listed_and_one_that_is_stopped_hides_no_other(world: World) -> None:
    odd = Repository(world.folder / "odd\n name").lay()
    elsewhere = world.folder / "other-runtime"
    elsewhere.mkdir(mode=0o700)
    first = world.start(at_home=True)
    second = world.start(odd.path, at_home=True, environ={"XDG_RUNTIME_DIR": str(elsewhere)})
    rows = listed(world)
    assert {path: row["pid"] for path, row in rows.items()} == {str(world.repository.path): first.pid, str(odd.path): second.pid}
    assert {(row["state"], row["repository_found"]) for row in rows.values()} == {("serving", True)}
    first.send(signal.SIGSTOP)
    try:
        began = time.monotonic()
        rows = listed(world)
        assert time.monotonic() - began < 10  # two seconds, on a machine that is not busy
        silent = rows[str(world.repository.path)]
        assert (silent["state"], silent["pid"], silent["condition"]) == ("not answering", first.pid, "stopped by a signal")
        assert rows[str(odd.path)]["state"] == "serving"
        document = dumped(world, "--timeout", "0.5")
        assert document["daemon"]["state"] == "not answering"
        assert document["daemon"]["stacks"] == "It is stopped, and says nothing until it is continued."
        assert document["daemon"]["seen_from_outside"]["condition"] == "stopped by a signal"
        assert any(line["event"] == "serving" for line in document["dump"]["log"])
    finally:
        first.send(signal.SIGCONT)
    second.kill()
    assert set(listed(world)) == {str(world.repository.path)}
    assert first.stop() == 0
    assert listed(world) == {}


def test_a_dump_of_a_daemon_that_lives_and_of_one_that_died(world: World) -> None:
    queue = json.loads(world.repository.queue.read_text())
    queue["tasks"][0]["title"] = "The planted title 4711"
    world.repository.queue.write_text(json.dumps(queue))
    daemon = world.start(at_home=True)
    with daemon.connect() as wire:
        wire.call("workspace.overview")
        document = dumped(world)
        assert document["daemon"] == {"state": "answered"}
        names = [task["name"] for task in document["dump"]["tasks"]]
        assert any("accept" in name for name in names)
        assert all(task["frames"] for task in document["dump"]["tasks"])
        assert any("MainThread" in thread["name"] for thread in document["dump"]["threads"])
        assert document["dump"]["status"]["metrics"]["requests"]["daemon.dump"] == 1
        assert "SOME_KEY" in document["client"]["environment"]
        assert "PATH" in document["dump"]["environment"]
    daemon.kill()
    after = dumped(world)
    assert after["daemon"]["state"] == "not running"
    assert after["dump"]["tasks"] == []
    assert [line["event"] for line in after["dump"]["log"]] == [line["event"] for line in document["dump"]["log"]]
    for one in (document, after):
        assert "planted" not in json.dumps(one)
        assert str(world.home) not in json.dumps(one)


def test_metrics_count_what_was_asked(world: World) -> None:
    daemon = world.start(at_home=True)
    with daemon.connect() as wire:
        for _ in range(5):
            wire.call("ping")
    text = world.run("daemon", "status", "--prometheus").stdout.decode()
    label = f'repository="{world.repository.path}"'
    assert f'cueloopd_requests_total{{{label},method="ping"}} 5\n' in text
    assert f"cueloopd_up{{{label}}} 1\n" in text
    assert f'cueloopd_request_duration_seconds_bucket{{{label},le="+Inf"}} 5\n' in text
    assert daemon.stop() == 0

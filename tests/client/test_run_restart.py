"""Runs and daemons that come and go: starts that fail, and a Ctrl-C that meets a new daemon."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from client.conftest import FakeStarts
from client.fakes import Connection, FakeDaemon, Recorder, answering, make_world, serving
from client.run_fakes import SECONDS, STORY, Script, call, within
from cueloop_client.failures import StartFailed
from cueloop_client.launch import launch
from cueloop_client.main import run
from cueloop_client.spawn import Died, Outcome, Ready
from cueloop_protocol.roots import Root


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cueloop_client.run_follow.PAUSES", (0.0,))


def vanishing(daemon: list[FakeDaemon], script: Script) -> Script:
    """A daemon that is gone for good as soon as somebody has heard the first two events."""

    def subscribe(connection: Connection, request: dict[str, Any]) -> None:
        script.notes = STORY[:2]
        script.subscribe(connection, request)
        os.unlink(daemon[0].path)
        connection.close()

    script.hooks["events.subscribe"] = subscribe
    return script


@pytest.mark.parametrize("line", ["machine run one", "run one"])
def test_a_daemon_that_cannot_be_started_again_ends_the_following(
    root: Root, environ: dict[str, str], starts: FakeStarts, line: str
) -> None:
    starts.plan(mode="die")
    there: list[FakeDaemon] = []
    recorder = Recorder()
    with serving(root, environ, vanishing(there, Script())) as daemon, within(SECONDS):
        there.append(daemon)
        code = run(["--repo", root.path, *line.split()], make_world(environ, recorder))
    assert code == 1
    assert len(starts.pids) == 1  # the pause between starts holds for us, too
    if line == "run one":
        assert "The connection to the daemon was lost; the run goes on." in recorder.err
        assert "The daemon died while it started (exit code 7)." in recorder.err
    else:
        assert "died while it started" in json.loads(recorder.err)["message"]
        assert len(recorder.out.splitlines()) == 2


def test_a_connection_that_breaks_before_the_first_event_is_made_again(root: Root, environ: dict[str, str]) -> None:
    script = Script()
    left = [3]

    def lose(connection: Connection, request: dict[str, Any]) -> None:
        left[0] -= 1
        if not left[0]:
            del script.hooks["events.subscribe"]
        connection.close()

    script.hooks["events.subscribe"] = lose
    called = call(root, environ, script, "machine run one")
    assert (called.code, called.err) == (0, "")
    assert [params["cursor"] for params in called.params("events.subscribe")] == ["e:0"] * 4


def test_one_that_always_breaks_is_given_up(root: Root, environ: dict[str, str]) -> None:
    script = Script()
    script.hooks["events.subscribe"] = lambda connection, request: connection.close()
    called = call(root, environ, script, "machine run one")
    assert (called.code, called.out, json.loads(called.err)["code"]) == (1, "", "unknown")


@pytest.mark.parametrize(("times", "starts_it"), [(1, True), (3, True), (4, False)])
def test_a_ctrl_c_that_met_the_new_daemon_is_no_failed_start(
    root: Root, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, times: int, starts_it: bool
) -> None:
    (elsewhere := dict(environ))["XDG_RUNTIME_DIR"] = environ["HOME"]
    os.chmod(environ["HOME"], 0o700)
    with serving(root, elsewhere, answering({})) as daemon:
        outcomes: list[Outcome] = [*(Died("signal 2", "") for _ in range(times)), Ready(daemon.path, 1)]
        monkeypatch.setattr("cueloop_client.launch.spawn", lambda *_: outcomes.pop(0))
        world = make_world(environ)
        if starts_it:
            launch(root, world, world.deadline(5)).close()
            assert outcomes == []
        else:
            with pytest.raises(StartFailed, match="signal 2"):
                launch(root, world, world.deadline(5))


def test_a_start_that_fails_otherwise_is_not_repeated(
    root: Root, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes: list[Outcome] = [Died("signal 9", "")]
    monkeypatch.setattr("cueloop_client.launch.spawn", lambda *_: outcomes.pop(0))
    world = make_world(environ)
    with pytest.raises(StartFailed, match="signal 9"):
        launch(root, world, world.deadline(5))

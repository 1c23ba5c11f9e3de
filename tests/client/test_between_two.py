"""Commands that only look, in the moment in which one daemon leaves and its successor serves the same socket."""

from __future__ import annotations

import json
from typing import Any

import pytest

from client.fakes import Connection, Recorder, answering, make_world, serving
from cueloop_client.main import run
from cueloop_protocol.codes import shutting_down
from cueloop_protocol.example_values import DUMP
from cueloop_protocol.examples import CALLS
from cueloop_protocol.roots import Root

STATUS: dict[str, Any] = {**CALLS["daemon.status"].result, "daemon_version": "9.8.7"}
ANSWERS = answering({"daemon.status": STATUS, "daemon.dump": DUMP})


def call(root: Root, environ: dict[str, str], line: str) -> tuple[int, Recorder]:
    recorder = Recorder()
    return run(["--repo", root.path, *line.split()], make_world(environ, recorder)), recorder


class Leaving:
    """Refuses a few calls as one that leaves for a successor does, which then answers."""

    def __init__(self, times: int = 2) -> None:
        self.left = times

    def __call__(self, connection: Connection, request: dict[str, Any]) -> None:
        self.left -= 1
        if self.left >= 0:
            connection.refuse(request, shutting_down("replaced").to_wire())
        else:
            ANSWERS(connection, request)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("daemon status", "9.8.7"),
        ("daemon status --json", '"daemon_version": "9.8.7"'),
        ("daemon status --prometheus", 'daemon_version="9.8.7"'),
        ("debug dump -o -", '"state": "answered"'),
        ("doctor --json --no-versions", '"version": "9.8.7"'),
    ],
)
def test_the_successor_is_asked(root: Root, environ: dict[str, str], line: str, told: str) -> None:
    leaving = Leaving()
    with serving(root, environ, leaving):
        code, said = call(root, environ, line)
    assert (told in said.out, said.err, leaving.left < 0) == (True, "", True), (code, said.out)


def test_a_list_asks_the_successor_and_tells_one_that_leaves_for_good(root: Root, environ: dict[str, str]) -> None:
    with serving(root, environ, Leaving()):
        assert row(root, environ)["state"] == STATUS["state"]
    with serving(root, environ, answering({"daemon.status": shutting_down("stopped")})):
        assert row(root, environ)["state"] == "draining"


def row(root: Root, environ: dict[str, str]) -> dict[str, Any]:
    """What the list says of this repository; daemons of others may run on this machine."""
    recorder = Recorder()
    assert run(["daemon", "list", "--json"], make_world(environ, recorder)) == 0
    (found,) = (one for one in json.loads(recorder.out)["daemons"] if one["repository"] == root.path)
    return dict(found)

"""`cueloop complete`: whom it asks, that it starts nothing, and that it is silent and over in time whatever happens."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from client.conftest import FakeStarts
from client.conftest import environ as environ
from client.conftest import root as root
from client.conftest import short as short
from client.conftest import starts as starts
from client.fakes import Connection, Handler, Recorder, answering, make_world, serving
from cueloop_client import complete as completing
from cueloop_client.complete import age, complete
from cueloop_client.main import run
from cueloop_protocol.codes import invalid_params
from cueloop_protocol.roots import Root

TASKS = [
    {"id": "RQ-0001", "title": "One", "status": "doing"},
    {"id": "RQ-0002", "title": "Two\x1b[2J\nmore", "status": "todo"},
    {"id": "RQ-0003", "title": "Three", "status": "done"},
    {"id": "RQ-0004", "title": "Four", "status": "todo", "kind": "group"},
    {"id": "XY-0005", "title": "Five", "status": "draft"},
]
ANSWERS = {
    "workspace.overview": {"document": {"queue": {"active": {"tasks": TASKS}}}},
    "config.resolve": {"document": {"config": {"profiles": {"mine": {}, "$(x)": {}}}, "execution_controls": {"runners": [{"id": "own"}]}}},
    "run.list": {"runs": [{"run_id": "r2", "mode": "loop", "started_at": "2026-02-07T10:00:00.5Z", "task_id": "RQ-1"}, {"run_id": "r1"}]},
}  # fmt: skip


def asked(root: Root, environ: dict[str, str], *words: str, shell: str = "zsh") -> list[str]:
    """The lines for these words in this repository, with all the time that it takes."""
    recorder = Recorder()
    assert complete(shell, ["--repo", root.path, *words], make_world(environ, recorder), seconds=60) == 0
    assert recorder.err == ""
    return recorder.out.splitlines()


def answered(root: Root, environ: dict[str, str], handler: Handler, *words: str) -> list[str]:
    with serving(root, environ, handler):
        return asked(root, environ, *words)


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (["run", "one", "--id", ""], ["RQ-0001\tOne (doing)", "RQ-0002\tTwo [2J more", "XY-0005\tFive (draft)"]),
        (["run", "one", "--id", "X"], ["XY-0005\tFive (draft)"]),
        (["run", "one", "--profile", ""], ["mine\t", "$(x)\t", "safe\t", "power-user\t"]),
        (["run", "status", "--run-id", ""], ["r2\t2026-02-07T10:00:00 loop RQ-1", "r1\t"]),
        (["run", "one", "--runner", "o"], ["own\t", "opencode\t"]),
    ],
)
def test_a_daemon_that_runs_is_asked(root: Root, environ: dict[str, str], words: list[str], lines: list[str]) -> None:
    assert answered(root, environ, answering(ANSWERS), *words) == ["words", *lines]


def test_without_a_daemon_the_answer_is_this_process_s_own_and_nothing_is_started(
    root: Root, environ: dict[str, str], starts: FakeStarts
) -> None:
    queue = [{**task, "created_at": "2026-02-07T10:00:00Z", "updated_at": "2026-02-07T10:00:00Z"} for task in TASKS[:2]]
    Path(root.join(".cueloop/queue.jsonc")).write_text(json.dumps({"version": 1, "tasks": queue}))
    assert asked(root, environ, "run", "one", "--id", "") == ["words", "RQ-0001\tOne (doing)", "RQ-0002\tTwo [2J more"]
    assert asked(root, environ, "run", "status", "--run-id", "") == ["words"]
    assert starts.pids == []
    assert sorted(path.name for path in Path(root.join(".cueloop")).iterdir()) == ["queue.jsonc"]


def closing(connection: Connection, request: dict[str, Any]) -> None:
    connection.close()


def no_json(connection: Connection, request: dict[str, Any]) -> None:
    connection.raw(b"no JSON\n")


@pytest.mark.parametrize(
    "handler",
    [
        closing,
        no_json,
        answering({"config.resolve": []}),
        answering({"config.resolve": {"document": {"config": None, "execution_controls": {"runners": [None, {"id": 7}]}}}}),
        answering({"config.resolve": invalid_params([])}),
    ],
    ids=["closes", "no JSON", "another shape", "other members", "an error"],
)
def test_a_daemon_that_answers_badly_leaves_what_is_known_without_it(
    root: Root, environ: dict[str, str], handler: Handler
) -> None:
    assert answered(root, environ, handler, "run", "one", "--runner", "p") == ["words", "pi\t"]


@pytest.mark.parametrize("words", [["--repo", "/nonexistent/x"], ["--repo", ""], ["--host", "ssh://box/x"]])
def test_a_repository_that_is_not_there_or_elsewhere(environ: dict[str, str], words: list[str]) -> None:
    recorder = Recorder()
    assert complete("fish", [*words, "run", "one", "--profile", "s"], make_world(environ, recorder), seconds=60) == 0
    assert (recorder.out, recorder.err) == ("words\nsafe\t\n", "")


def test_a_tilde_is_the_home_of_whoever_asks(root: Root, environ: dict[str, str]) -> None:
    recorder = Recorder()
    with serving(root, environ, answering(ANSWERS)):
        world = make_world({**environ, "HOME": root.path + "/.."}, recorder)
        complete("bash", ["9", " =", "80", "cueloop --repo ~/repo run one --id X"], world, seconds=60)
    assert recorder.out == "words\nXY-0005\n"


@pytest.mark.parametrize(
    "line", ["complete bash -- 9", "complete bash -- 9 x y", "complete fish -- '", "complete bash -- a b c cueloop"]
)
def test_a_malformed_question_is_no_failure(environ: dict[str, str], line: str) -> None:
    recorder = Recorder()
    assert run(line.split(), make_world(environ, recorder)) == 0
    assert recorder.err == ""


def test_a_closed_output_is_no_failure(environ: dict[str, str]) -> None:
    def closed(fd: int, data: bytes) -> None:
        raise BrokenPipeError

    world = make_world(environ)
    world.__dict__["write"] = closed
    assert complete("zsh", ["ses"], world) == 0


def test_a_daemon_that_does_not_answer_is_not_waited_for(root: Root, environ: dict[str, str]) -> None:
    """A command waits ten seconds; a shell gets what is known without the daemon."""
    argv = [
        sys.executable,
        "-P",
        "-m",
        "cueloop_client",
        "complete",
        "zsh",
        "--",
        "--repo",
        root.path,
        "run",
        "one",
        "--runner",
        "p",
    ]
    with serving(root, environ, lambda connection, request: None):
        begun = time.monotonic()
        done = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=60, check=False)
        took = time.monotonic() - begun
    assert (done.returncode, done.stdout, done.stderr) == (0, "words\npi\t\n", "")
    assert took < 8


def test_at_the_deadline_even_an_answer_of_its_own_is_given_up(
    root: Root, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the process is about: it writes what it knows and ends."""
    ended: list[int] = []
    recorder = Recorder()

    class Ended(BaseException):
        pass

    def end(code: int) -> None:
        ended.append(code)
        raise Ended

    def forever(*_: object) -> object:
        while True:
            time.sleep(0.01)

    monkeypatch.setattr(completing.os, "_exit", end)
    monkeypatch.setattr("cueloop_client.complete_live.live", forever)
    world = make_world(environ, recorder)
    with pytest.raises(Ended):
        complete("zsh", ["--repo", root.path, "run", "one", "--profile", "s"], world, seconds=0.05)
    assert (ended, recorder.out) == ([0], "words\nsafe\t\n")


def test_the_time_counts_from_the_start_of_the_process() -> None:
    code = "from cueloop_client.complete import age; print(age())"
    begun = time.monotonic()
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert 0 <= float(done.stdout) <= time.monotonic() - begun + 0.02
    assert age() > 0


def test_the_standard_library_is_enough_where_a_daemon_answers(root: Root, environ: dict[str, str]) -> None:
    code = (
        "import sys; from cueloop_client.main import main; main(); "
        "print([name for name in ('pydantic', 'anyio', 'asyncio', 'argparse', 'subprocess') if name in sys.modules])"
    )
    argv = [sys.executable, "-P", "-c", code, "complete", "zsh", "--", "--repo", root.path, "session", "sh"]
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "show" in done.stdout

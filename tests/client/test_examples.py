"""The two examples, as programs, with the real daemon."""

from __future__ import annotations

import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cueloop_protocol.roots import Root

EXAMPLES = Path(__file__).parents[2] / "examples"
CUELOOP = [sys.executable, "-m", "cueloop_client"]
QUEUE = '{"version": 1, "tasks": [{"id": "RQ-0001", "title": "t", "status": "doing"}]}'
SESSION = """{"version": 1, "session_id": "s", "task_id": "RQ-0001", "run_started_at": "NOW", "last_updated_at": "NOW",
"iterations_planned": 1, "iterations_completed": 0, "current_phase": 2, "runner": "claude", "model": "sonnet",
"tasks_completed_in_loop": 0, "max_tasks": 1}"""


@pytest.mark.parametrize("example", ["subscribe_library.py", "subscribe_raw.py"])
def test_it_prints_the_state_and_then_the_decision_that_is_pushed(root: Root, environ: dict[str, str], example: str) -> None:
    repository = Path(root.path)
    (repository / ".cueloop/queue.jsonc").write_text(QUEUE)
    (repository / ".cueloop/cache").mkdir()
    subprocess.run([*CUELOOP, "daemon", "start"], cwd=repository, env=environ, check=True, capture_output=True, timeout=60)
    try:
        program = subprocess.Popen(
            [sys.executable, EXAMPLES / example, repository, "1"], env=environ, stdout=subprocess.PIPE, text=True
        )
        assert program.stdout is not None
        with program.stdout as printed:
            assert printed.readline() == "No interrupted session.\n"  # it is subscribed now
            (repository / "new").write_text(SESSION.replace("NOW", datetime.now(UTC).isoformat()))
            (repository / "new").rename(repository / ".cueloop/cache/session.jsonc")
            assert printed.readline() == "Resume: continuing the interrupted session for task RQ-0001.\n"
            assert program.wait(30) == 0
    finally:
        subprocess.run([*CUELOOP, "daemon", "stop"], cwd=repository, env=environ, check=True, capture_output=True, timeout=60)


@pytest.mark.parametrize("example", ["subscribe_library.py", "subscribe_raw.py"])
def test_it_says_why_there_is_no_preview_and_ctrl_c_ends_it(root: Root, environ: dict[str, str], example: str) -> None:
    repository = Path(root.path)
    (repository / ".cueloop/config.jsonc").write_text('{"agent": {"phases": 7}}')
    subprocess.run([*CUELOOP, "daemon", "start"], cwd=repository, env=environ, check=True, capture_output=True, timeout=60)
    try:
        with subprocess.Popen(
            [sys.executable, EXAMPLES / example, repository],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as program:
            assert program.stdout is not None
            assert "phases" in program.stdout.readline()
            program.send_signal(signal.SIGINT)
            assert program.communicate(timeout=30)[1] == ""
        assert program.returncode == 130
    finally:
        subprocess.run([*CUELOOP, "daemon", "stop"], cwd=repository, env=environ, check=True, capture_output=True, timeout=60)


@pytest.mark.parametrize(
    ("example", "folder", "said"),
    [
        ("subscribe_raw.py", ".", "No daemon runs there. Start it: cueloop daemon start\n"),
        ("subscribe_library.py", "nowhere", "nowhere"),
    ],
)
def test_where_nobody_answers_it_says_so(root: Root, environ: dict[str, str], example: str, folder: str, said: str) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / example, Path(root.path, folder)], env=environ, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_the_demo_watches_what_cannot_be_used_and_stops_what_it_started(root: Root, environ: dict[str, str]) -> None:
    repository = Path(root.path)
    config = repository / ".cueloop/config.jsonc"
    config.write_text('{"agent": {"phases": 7}}')
    home = {**environ, "HOME": str(repository.parent)}
    command = [sys.executable, EXAMPLES / "demo.py", "--repo", f"~/{repository.name}"]
    with subprocess.Popen(command, env=home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline().startswith("no preview: ")
        while "watching" not in (line := program.stdout.readline()):
            assert line, program.communicate()
        program.send_signal(signal.SIGINT)
        said, complaint = program.communicate(timeout=30)
    assert (program.returncode, complaint) == (0, "")
    assert "goes on" not in said
    status = [*CUELOOP, "daemon", "status"]
    assert subprocess.run(status, cwd=repository, env=environ, capture_output=True, timeout=60).returncode == 3


def test_the_demo_leaves_a_daemon_that_ran_before(root: Root, environ: dict[str, str]) -> None:
    repository = Path(root.path)
    subprocess.run([*CUELOOP, "daemon", "start"], cwd=repository, env=environ, check=True, capture_output=True, timeout=60)
    try:
        command = [sys.executable, EXAMPLES / "demo.py", "--repo", repository]
        with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as program:
            assert program.stdout is not None
            while "watching" not in (line := program.stdout.readline()):
                assert line, program.communicate()
            program.send_signal(signal.SIGINT)
            program.communicate(timeout=30)
        assert program.returncode == 0
        status = [*CUELOOP, "daemon", "status"]
        assert subprocess.run(status, cwd=repository, env=environ, capture_output=True, timeout=60).returncode == 0
    finally:
        subprocess.run([*CUELOOP, "daemon", "stop"], cwd=repository, env=environ, check=True, capture_output=True, timeout=60)


@pytest.mark.parametrize("example", ["subscribe_library.py", "subscribe_raw.py"])
def test_it_is_an_ordinary_program_of_some_thirty_lines(example: str) -> None:
    assert len((EXAMPLES / example).read_text().splitlines()) <= 50

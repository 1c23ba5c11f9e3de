"""The two examples, as programs, with the real daemon."""

from __future__ import annotations

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
def test_it_is_an_ordinary_program_of_some_thirty_lines(example: str) -> None:
    assert len((EXAMPLES / example).read_text().splitlines()) <= 40

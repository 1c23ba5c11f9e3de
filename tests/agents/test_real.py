"""`cueloop run one` with each real CLI against the stand-in, from the command line to what the model was shown.

Only for `make agents`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.cli import Cli, json_lines
from agents.clis import CLIS
from agents.repository import GATE_SAYS, TITLE, continue_decisions, repository, summary_of
from agents.standin import Failure, StandIn, Text

REFUSED = "The request is not valid."
"""The stand-in's words with status 400."""
FIRST, SECOND = "The marigold is planted.", "The flower bed is mended."
SAME = ("resuming_same_session", "session_valid")
FRESH = ("falling_back_to_fresh_invocation", "runner_session_invalid")

EVERY_CLI = pytest.mark.parametrize("cli", [pytest.param(cli, id=name) for name, cli in sorted(CLIS.items())])


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    with StandIn() as served:
        served.play(Text(FIRST), Text(SECOND))
        yield served


def failing_once(base: Path, then: str = "") -> str:
    """A gate that fails the first time, having done `then`."""
    return f'[ -e "{base}/gate-ran" ] && exit 0\ntouch "{base}/gate-ran"\n{then}\necho "{GATE_SAYS}"\nexit 3'


@EVERY_CLI
def test_a_task_is_done(cli: Cli, tmp_path: Path, stand_in: StandIn) -> None:
    with repository(cli, tmp_path, stand_in) as repo:
        done = repo.cueloop("run", "one", "--non-interactive")
        assert done.returncode == 0, done.stderr
        assert (repo.status_in("queue"), repo.status_in("done"), repo.has_session) == (None, "done", False)
    (asked,) = stand_in.asked
    assert TITLE in asked.said


@EVERY_CLI
def test_a_failed_gate_is_told_in_the_same_conversation(cli: Cli, tmp_path: Path, stand_in: StandIn) -> None:
    with repository(cli, tmp_path, stand_in, failing_once(tmp_path)) as repo:
        done = repo.cueloop("machine", "run", "one")
        assert done.returncode == 0, done.stdout + done.stderr
        assert continue_decisions(done.stdout) == [SAME]
        assert summary_of(done.stdout)["outcome"] == "ran"
        assert repo.status_in("done") == "done"
    first, second = stand_in.asked
    assert TITLE in first.said
    assert GATE_SAYS not in first.said
    assert TITLE in second.said
    assert second.said.index(FIRST) < second.said.index(GATE_SAYS)


@EVERY_CLI
def test_a_conversation_that_is_gone_is_begun_anew(cli: Cli, tmp_path: Path, stand_in: StandIn) -> None:
    memory = " ".join(f'"{tmp_path}/home"/{pattern}' for pattern in cli.memory)
    with repository(cli, tmp_path, stand_in, failing_once(tmp_path, f"rm -rf {memory}")) as repo:
        done = repo.cueloop("machine", "run", "one")
        assert done.returncode == 0, done.stdout + done.stderr
        decisions = continue_decisions(done.stdout)
        assert decisions[-1] == FRESH
        assert decisions[:-1] in ([], [SAME])
        assert repo.status_in("done") == "done"
    assert len(stand_in.asked) >= 2
    last = stand_in.asked[-1]
    assert TITLE in last.said
    assert GATE_SAYS in last.said
    assert FIRST not in last.said


@EVERY_CLI
def test_a_failing_api_fails_the_run_whatever_the_exit_code(cli: Cli, tmp_path: Path, stand_in: StandIn) -> None:
    stand_in.play(Failure(400))
    with repository(cli, tmp_path, stand_in) as repo:
        done = repo.cueloop("run", "one", "--non-interactive")
        assert done.returncode == 1, done.stdout + done.stderr
        assert REFUSED in done.stderr
        assert (repo.status_in("queue"), repo.status_in("done"), repo.has_session) == ("doing", None, True)
    assert stand_in.asked


def test_exit_0_of_pi_is_no_success_when_its_stream_says_otherwise(tmp_path: Path, stand_in: StandIn) -> None:
    stand_in.play(Failure(400))
    with repository(CLIS["pi"], tmp_path, stand_in) as repo:
        done = repo.cueloop("machine", "run", "one")
        assert done.returncode == 1, done.stdout
        assert summary_of(done.stdout)["outcome"] == "failed"
    (said,) = (line for line in json_lines(done.stdout) if line.get("kind") == "warning")
    assert said["exit_code"] == 0
    assert REFUSED in str(said["message"])

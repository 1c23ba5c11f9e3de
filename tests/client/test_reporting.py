"""What is said when something goes wrong: never a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from client.fakes import Recorder, make_world, serving
from cueloop_client.failures import Failure, Misfit, Usage
from cueloop_client.main import run
from cueloop_client.reporting import as_failure, report
from cueloop_client.world import read_line, write_all
from cueloop_protocol.codes import RpcError
from cueloop_protocol.roots import Root, RootError
from cueloop_protocol.version import __version__

CUELOOP = [sys.executable, "-m", "cueloop_client"]


@pytest.mark.parametrize(
    ("exc", "code", "said"),
    [
        (Failure("It failed.", "Because."), 1, "cueloop: It failed.\nBecause.\n"),
        (Usage("Not so."), 2, "cueloop: Not so.\n"),
        (RpcError(-32603, "Internal error"), 1, "cueloop: Internal error\n"),
        (RootError("'/x' does not exist"), 1, "cueloop: '/x' does not exist.\n"),
        (OSError(28, "No space left on device"), 1, "cueloop: No space left on device.\n"),
        (PermissionError(13, "Permission denied", "/a/b"), 1, "cueloop: /a/b: Permission denied.\n"),
        (KeyboardInterrupt(), 130, ""),
        (BrokenPipeError(), 141, ""),
    ],
)
def test_for_people(exc: BaseException, code: int, said: str) -> None:
    recorder = Recorder()
    assert report(exc, make_world({}, recorder), machine=False, verbose=False) == code
    assert (recorder.err, recorder.out) == (said, "")


def test_a_mistake_of_our_own_is_one_sentence_and_with_v_its_place() -> None:
    recorder = Recorder()
    assert report(ValueError("odd"), make_world({}, recorder), machine=False, verbose=False) == 1
    assert recorder.err.startswith("cueloop: This is a mistake in cueloop itself: ValueError: odd\n")
    assert "Traceback" not in recorder.err
    assert report(ValueError("odd"), make_world({}, recorder), machine=False, verbose=True) == 1
    assert "ValueError: odd" in recorder.err


@pytest.mark.parametrize(
    ("exc", "word"),
    [
        (Misfit("x"), "version_mismatch"),
        (PermissionError(13, "x"), "permission_denied"),
        (OSError(5, "x"), "unknown"),
        (ZeroDivisionError("x"), "unknown"),
    ],
)
def test_for_machines(exc: Exception, word: str) -> None:
    assert as_failure(exc).document()["code"] == word


def test_a_closed_standard_error_changes_nothing() -> None:
    def closed(fd: int, data: bytes) -> None:
        raise BrokenPipeError

    world = make_world({})
    broken = type(world)(**{**vars(world), "write": closed})
    assert report(Failure("x"), broken, machine=False, verbose=False) == 1


def test_writing_to_a_closed_descriptor_is_a_broken_pipe() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with pytest.raises(BrokenPipeError):
        write_all(writing, b"x")
    os.close(writing)
    with pytest.raises(BrokenPipeError):
        write_all(writing, b"x")


def test_a_folder_that_is_named_and_missing_is_wrong_usage() -> None:
    recorder = Recorder()
    assert run(["--repo", "/nonexistent/é", "session", "show"], make_world({"HOME": "/"}, recorder)) == 2
    assert "'/nonexistent/é'" in recorder.err


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("", 0, "usage: cueloop [options] COMMAND"),
        ("--help", 0, "Exit codes: 0 done"),
        ("session --help", 0, "session clear"),
        ("session show --help", 0, "Example: cueloop session show"),
        ("--version", 0, f"cueloop {__version__} ("),
        ("fleet", 2, "`fleet` is not in this version yet"),
        ("session", 2, "`session` alone is no command: it takes show, clear."),
        ("--json task list", 2, "--json before `task` is not possible"),
    ],
)
def test_what_is_no_command(line: str, code: int, said: str) -> None:
    recorder = Recorder()
    assert run(line.split(), make_world({"PATH": "/nonexistent"}, recorder)) == code
    assert said in (recorder.err if code else recorder.out)
    assert (recorder.out if code else recorder.err) == ""


@pytest.mark.parametrize("timeout", ["0", "-1", "x", "nan", "inf", "86401"])
def test_a_timeout_is_a_number_of_seconds(timeout: str) -> None:
    recorder = Recorder()
    assert run(["--timeout", timeout, "session", "show"], make_world({}, recorder)) == 2
    assert "--timeout takes seconds" in recorder.err


def environment(**extra: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": "/nonexistent/home", **extra}


def test_a_working_directory_that_was_deleted(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f'cd {gone} && rmdir {gone} && exec "$@"'
    for line in (["session", "show"], ["machine", "config", "resolve"], ["daemon", "status"], ["events"]):
        done = subprocess.run(
            ["sh", "-c", script, "sh", *CUELOOP, *line], env=environment(), capture_output=True, text=True, timeout=60
        )
        gone.mkdir()
        assert done.returncode == 1, line
        assert "does not exist" in done.stderr
        assert "Traceback" not in done.stderr


def test_a_home_that_cannot_be_read_or_written_is_no_obstacle(root: Root) -> None:
    done = subprocess.run(
        [*CUELOOP, "--no-daemon", "session", "show"], cwd=root.path, env=environment(), capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "No interrupted session.\n")


def test_help_into_a_pipe_that_closes_is_quiet() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([*CUELOOP, "--help"], env=environment(), stdout=writing, stderr=subprocess.PIPE, timeout=60)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_ctrl_c_while_waiting_is_130_and_quiet(root: Root, environ: dict[str, str]) -> None:
    with serving(root, environ, lambda connection, request: None) as daemon:
        process = subprocess.Popen([*CUELOOP, "session", "show"], cwd=root.path, env=environ, stderr=subprocess.PIPE)
        daemon.await_message(lambda message: message["method"] == "session.get", 30)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (130, b"")


def test_a_line_is_read_and_nothing_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    saved = os.dup(0)
    os.dup2(reading, 0)
    try:
        os.write(writing, "é\nnext".encode())
        assert read_line() == "é\n"
        assert os.read(0, 10) == b"next"
        os.close(writing)
        assert read_line() == ""
    finally:
        os.dup2(saved, 0)
        os.close(saved)
        os.close(reading)


class TestTheWarmPath:
    HEAVY = (
        "pydantic",
        "pydantic_core",
        "anyio",
        "asyncio",
        "argparse",
        "subprocess",
        "dataclasses",
        "typing",
        "inspect",
        "threading",
    )

    def test_it_loads_nothing_heavy(self, root: Root, environ: dict[str, str]) -> None:
        script = (
            "import sys\nfrom cueloop_client.main import main\n"
            "sys.argv = ['cueloop', 'session', 'show']\ncode = main()\n"
            f"print(sorted(set({self.HEAVY!r}) & set(sys.modules)), file=sys.stderr)\nsys.exit(code)"
        )
        answer = {"state": "missing", "path": "/x", "settling": False}
        with serving(root, environ, lambda connection, request: connection.answer(request, answer)):
            done = subprocess.run(
                [sys.executable, "-c", script], cwd=root.path, env=environ, capture_output=True, text=True, timeout=60
            )
        assert (done.returncode, done.stdout, done.stderr) == (0, "No interrupted session.\n", "[]\n")

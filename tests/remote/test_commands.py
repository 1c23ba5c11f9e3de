"""Every command of ours with `--host`: what it says and how it exits is what it would be there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping

import pytest

from cueloop_client.table import COMMANDS
from support.sshd import Sshd
from support.wire import wait_for

CASES: Mapping[str, str] = {
    "run one": "run one --dry-run",
    "run loop": "run loop --dry-run --json",
    "run resume": "run resume --dry-run",
    "run stop": "run stop",
    "run cancel": "run cancel",
    "run status": "run status",
    "run attach": "run attach",
    "run output": "run output",
    "machine run one": "machine run one --resume --runner nobody",
    "machine run loop": "machine run loop --id",
    "machine run stop": "machine run stop --dry-run",
    "machine config resolve": "machine config resolve",
    "machine workspace overview": "machine workspace overview",
    "session show": "session show --json",
    "session clear": "session clear --yes",
    "events": "events --json",
    "daemon start": "daemon start",
    "daemon status": "daemon status --json",
    "daemon list": "daemon list --json",
    "daemon logs": "daemon logs -n 1",
    "daemon restart": "daemon restart --when-idle",
    "daemon stop": "daemon stop",
    "debug dump": "debug dump --output -",
    "doctor": "doctor --json --no-versions",
    "completions bash": "completions bash",
    "completions zsh": "completions zsh",
    "completions fish": "completions fish",
    "service install": "service install --dry-run",
    "service uninstall": "service uninstall --dry-run",
    "service status": "service status --json",
    "service logs": "service logs",
}
"""One call of each; none of them needs an agent."""
SAME = ("run one", "run status", "machine config resolve", "session show", "doctor")
"""Those that are called there, too, and compared to the letter, but for numbers."""
HERE = ("dial-stdio",)


@pytest.fixture(scope="module")
def close(box: Sshd) -> Iterator[Sshd]:
    """The same over a control master, which makes a call cost a third."""
    with box.master():
        yield box


def test_each_command_has_a_case() -> None:
    assert set(CASES) | set(HERE) == {" ".join(words) for words in COMMANDS}


@pytest.mark.parametrize("name", CASES)
def test_a_command(close: Sshd, name: str) -> None:
    argv = CASES[name].split()
    if name in SAME:  # what was started by another case, or not, makes no difference then
        assert close.world.run("daemon", "start").returncode == 0
    done = close.run(*argv, environ={"CUELOOP_HOST": close.url})
    assert done.returncode in EXPECTED.get(name, (0,)), (done.stdout, done.stderr)
    assert b"mistake in cueloop" not in done.stderr
    if name in SAME:
        path = f"/usr/bin:/bin:{close.world.home}/.local/bin:/usr/local/bin"
        there = close.world.run(*argv, environ={"PATH": path})
        assert _shape(done.stdout) == _shape(there.stdout)
        assert _shape(done.stderr) == _shape(there.stderr)
        assert done.returncode == there.returncode
    elif done.returncode == 0 and ("--json" in argv or argv[0] == "machine") and argv[0] != "events":
        json.loads(done.stdout)


EXPECTED: Mapping[str, tuple[int, ...]] = {
    "run stop": (1,),
    "run cancel": (1,),
    "run status": (1,),
    "run attach": (1,),
    "run output": (1,),
    "machine run one": (1,),
    "machine run loop": (2,),
    "doctor": (0, 1),
    "service install": (0, 1),
    "service uninstall": (0, 1),
    "service status": (0, 1, 3),
    "service logs": (0, 1),
}
"""Exit codes that are not 0: nothing runs, wrong options, or as there is a service manager and an agent on the machine."""


def _shape(data: bytes) -> bytes:
    return re.sub(rb"[0-9a-f]{8,}|\d+(\.\d+)?", b"N", data)


def test_the_documents_are_of_the_repository_there(close: Sshd) -> None:
    done = close.run("machine", "workspace", "overview", "--host", close.url)
    assert str(close.world.repository.path).encode() in done.stdout
    status = json.loads(close.run("daemon", "status", "--json", "--host", close.url).stdout)
    assert status["running"] is True
    assert close.world.daemons() == [status["pid"]]


def test_without_a_daemon_the_answer_is_made_there(close: Sshd) -> None:
    close.run("daemon", "stop", "--host", close.url)
    done = close.run("machine", "config", "resolve", "--no-daemon", "--host", close.url)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["version"]
    assert close.world.daemons() == []


def test_reading_where_no_daemon_may_be(close: Sshd) -> None:
    bare = close.world.folder / "bare"
    bare.mkdir()
    host = f"ssh://box{bare}"
    done, there = close.run("session", "show", "--host", host), close.world.run("session", "show", cwd=bare)
    assert (done.returncode, done.stdout, done.stderr) == (there.returncode, there.stdout, there.stderr) != (1, b"", b"")
    changing = close.run("session", "clear", "--etag", "x", "--host", host)
    assert changing.returncode == 1
    assert f"On box: {bare} has no .cueloop folder." in changing.stderr.decode()


def test_a_path_below_the_home_there(close: Sshd) -> None:
    (close.world.home / "code app").symlink_to(close.world.repository.path)
    done = close.run("session", "show", "--host", "ssh://box/~/code%20app")
    assert (done.returncode, done.stderr) == (0, b"")
    done = close.run("daemon", "status", "--json", "--host", "ssh://box/~/code%20app")
    assert done.returncode in (0, 3)
    assert done.stderr == b""


@pytest.mark.parametrize("argv", [("session", "show"), ("daemon", "status"), ("run", "status")])
def test_a_path_that_is_none_is_wrong_usage_for_people(close: Sshd, argv: tuple[str, ...]) -> None:
    done = close.run(*argv, "--host", "ssh://box/no/such/folder")
    assert done.returncode == 2
    assert b"/no/such/folder" in done.stderr


def test_a_path_that_is_none_is_an_error_document_for_programs(close: Sshd) -> None:
    done = close.run("machine", "config", "resolve", "--host", "ssh://box/no/such/folder")
    document = json.loads(done.stderr)
    assert (done.returncode, done.stdout) == (1, b"")
    assert document["message"].startswith("On box: ")


class TestWhichRepository:
    def test_a_flag_wins_over_the_environment(self, close: Sshd) -> None:
        wrong = {"CUELOOP_HOST": "ssh://box/no/such/folder"}
        assert close.run("session", "show", "--host", close.url, environ=wrong).returncode == 0
        done = close.run("session", "show", "--no-daemon", "--repo", str(close.world.repository.path), environ=wrong)
        assert (done.returncode, done.stderr) == (0, b"")

    def test_both_flags_contradict_each_other(self, close: Sshd) -> None:
        done = close.run("session", "show", "--host", close.url, "--repo", "/")
        assert (done.returncode, done.stdout) == (2, b"")
        assert b"contradict" in done.stderr

    @pytest.mark.parametrize("host", ["", "box", "ssh://-oProxyCommand=x/y", "ssh://box"])
    def test_what_is_none_is_wrong_usage(self, close: Sshd, host: str) -> None:
        done = close.run("session", "show", "--host", host)
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr.startswith(b"cueloop: --host")

    def test_the_rust_tool_works_nowhere_else(self, close: Sshd) -> None:
        flag = close.run("--host", close.url, "task", "list")
        assert (flag.returncode, flag.stdout) == (2, b"")
        assert b"--host before `task` is not possible" in flag.stderr
        variable = close.run("task", "list", environ={"CUELOOP_HOST": close.url, "CUELOOP_RUST_BIN": "/bin/echo"})
        assert (variable.returncode, variable.stdout) == (2, b"")
        assert b"CUELOOP_HOST" in variable.stderr
        meant = close.run("rust", "task", environ={"CUELOOP_HOST": close.url, "CUELOOP_RUST_BIN": "/bin/echo"})
        assert (meant.returncode, meant.stdout) == (0, b"task\n")

    def test_a_parallel_loop_is_the_rust_tools(self, close: Sshd) -> None:
        done = close.run("run", "loop", "--parallel", "2", "--host", close.url)
        assert done.returncode == 2
        assert b"--host does not go with --parallel" in done.stderr

    def test_the_other_end_is_called_there(self, close: Sshd) -> None:
        done = close.run("dial-stdio", "--host", close.url)
        assert done.returncode == 2
        assert b"calls on the other machine" in done.stderr


def test_nothing_of_it_is_loaded_by_a_command_for_this_machine() -> None:
    names = ("main", "fast", "launch", "context", "run_attached", "commands.session_show", "commands.events", "api")
    code = f"import sys; [__import__('cueloop_client.' + name) for name in {names!r}]; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert "cueloop_client.far" in done.stdout.split()
    assert not [name for name in done.stdout.split() if name.startswith("cueloop_client.remote")]


def test_nothing_is_left_there(close: Sshd) -> None:
    wait_for(lambda: not close.bridges(), "the end of all that was called there", 2.0)

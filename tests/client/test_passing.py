"""Handing a command to the Rust tool: which program, and never ourselves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cueloop_client.failures import Usage
from cueloop_client.passing import DEEPEST, GUARD, find_tool, identity, read_trail
from cueloop_daemon.core.model import Unusable
from cueloop_daemon.store.queue_file import parse_queue

RUST = '#!/bin/sh\nprintf \'%s\\n\' "rust" "$@"\n'


def program(path: Path, text: str = RUST) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def ours(path: Path) -> Path:
    """A console script like the installed one, with an inode of its own."""
    # As installers write it where the interpreter's path has a blank: a shell that starts this very file with it.
    begin = f"#!/bin/sh\n'''exec' \"{sys.executable}\" \"$0\" \"$@\"\n' '''\n"
    return program(path, f"{begin}import sys\nfrom cueloop_client.main import main\nsys.exit(main())\n")


def call(path: Path, *argv: str, **environ: str) -> subprocess.CompletedProcess[str]:
    surroundings = {"HOME": "/", "LANG": "C.UTF-8", **environ}
    return subprocess.run([path, *argv], env=surroundings, capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL)


def test_arguments_are_untouched(tmp_path: Path) -> None:
    rust, us = program(tmp_path / "rust/cueloop"), ours(tmp_path / "ours/cueloop")
    argv = ["--no-color", "task", "done", "", "a b", "--", "--json", "é", "*"]
    done = call(us, *argv, PATH=f"{us.parent}:{rust.parent}:{os.environ['PATH']}")
    assert (done.returncode, done.stdout.split("\n")[1:-1], done.stderr) == (0, argv, "")


def test_rust_drops_its_own_word_alone(tmp_path: Path) -> None:
    rust, us = program(tmp_path / "rust/cueloop"), ours(tmp_path / "ours/cueloop")
    done = call(us, "rust", "run", "one", "--id", "x", CUELOOP_RUST_BIN=str(rust))
    assert done.stdout.split() == ["rust", "run", "one", "--id", "x"]


def test_the_tools_exit_code_and_standard_error_are_ours(tmp_path: Path) -> None:
    rust = program(tmp_path / "rust/cueloop", "#!/bin/sh\necho oops >&2\nexit 42\n")
    done = call(ours(tmp_path / "ours/cueloop"), "task", "list", CUELOOP_RUST_BIN=str(rust))
    assert (done.returncode, done.stderr) == (42, "oops\n")


def test_signals_that_python_ignores_are_not_ignored_by_the_tool(tmp_path: Path) -> None:
    rust = program(tmp_path / "rust/cueloop", "#!/bin/sh\ngrep SigIgn /proc/self/status\n")
    done = call(ours(tmp_path / "ours/cueloop"), "task", CUELOOP_RUST_BIN=str(rust), PATH=os.environ["PATH"])
    assert int(done.stdout.split()[1], 16) & (1 << 12) == 0  # SIGPIPE is 13


def test_links_to_ourselves_and_other_copies_of_us_are_passed_over(tmp_path: Path) -> None:
    us, copy, rust = ours(tmp_path / "a/cueloop"), ours(tmp_path / "c/cueloop"), program(tmp_path / "d/cueloop")
    (tmp_path / "b").mkdir()
    (tmp_path / "b/cueloop").symlink_to(us)
    path = ":".join(str(tmp_path / name) for name in "abcd")
    for first in (us, copy, tmp_path / "b/cueloop"):
        assert call(first, "task", "list", PATH=path).stdout.split() == ["rust", "task", "list"]
    rust.unlink()
    done = call(us, "task", "list", PATH=path)
    assert done.returncode == 2
    assert "`task list` is a command of the Rust tool cueloop, which is not here" in done.stderr
    assert "CUELOOP_RUST_BIN" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_wrapper_that_comes_back_to_us_is_a_circle_that_ends(tmp_path: Path) -> None:
    us = ours(tmp_path / "a/cueloop")
    by_exec = program(tmp_path / "exec", f'#!/bin/sh\nexec {us} "$@"\n')
    done = call(us, "task", "list", CUELOOP_RUST_BIN=str(by_exec))
    assert (done.returncode, "leads back to this tool" in done.stderr) == (2, True)
    by_child = program(tmp_path / "child", f'#!/bin/sh\n{us} "$@"\n')
    done = call(us, "task", "list", CUELOOP_RUST_BIN=str(by_child), PATH=os.environ["PATH"])
    assert done.returncode == 2
    assert f"passed on {DEEPEST} times" in done.stderr
    done = call(us, "task", "list", CUELOOP_RUST_BIN=str(us))
    assert (done.returncode, "leads back to this tool" in done.stderr) == (2, True)


def test_an_agent_below_the_tool_may_call_us_again(tmp_path: Path) -> None:
    us = ours(tmp_path / "a/cueloop")
    rust = program(
        tmp_path / "rust", f'#!/bin/sh\nif [ "$1" = run ]; then {us} task done X; else printf "inner %s\\n" "$*"; fi\n'
    )
    done = call(us, "rust", "run", "loop", CUELOOP_RUST_BIN=str(rust), PATH=os.environ["PATH"])
    assert done.stdout == "inner task done X\n"


def test_a_run_is_not_passed_on_although_the_tool_is_there(tmp_path: Path) -> None:
    rust, us = program(tmp_path / "rust/cueloop"), ours(tmp_path / "ours/cueloop")
    for argv in (["run", "one"], ["run", "loop", "--resume"], ["machine", "run", "one"]):
        done = call(us, *argv, "--help", CUELOOP_RUST_BIN=str(rust))
        assert (done.returncode, done.stderr) == (0, "")
        assert "usage: cueloop " in done.stdout
    for argv in (["history"], ["live", "x"]):
        done = call(us, *argv, CUELOOP_RUST_BIN=str(rust))
        assert (done.returncode, done.stdout) == (2, ""), argv
        assert "not in this version yet" in done.stderr
        assert f"cueloop rust {argv[0]}" in done.stderr


@pytest.mark.parametrize("content", [None, b"\x00\x01 no program"])
def test_a_tool_that_cannot_be_started_is_named(tmp_path: Path, content: bytes | None) -> None:
    tool = tmp_path / "tool"
    if content is not None:
        tool.write_bytes(content)
        tool.chmod(0o755)
    done = call(ours(tmp_path / "a/cueloop"), "task", "list", CUELOOP_RUST_BIN=str(tool))
    assert done.returncode == 2
    assert str(tool) in done.stderr


def test_only_absolute_folders_of_path_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "cueloop")
    monkeypatch.chdir(tmp_path)
    for path in ("", ".", ":", "relative:."):
        with pytest.raises(Usage):
            find_tool("task", {"PATH": path}, frozenset(), 0)


def test_folders_and_files_that_may_not_be_executed_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a/cueloop").mkdir(parents=True)
    program(tmp_path / "b/cueloop").chmod(0o644)
    last = program(tmp_path / "c/cueloop")
    path = ":".join(str(tmp_path / name) for name in "abc")
    assert find_tool("task", {"PATH": path}, frozenset(), 0) == str(last)


def test_without_the_tool_init_says_what_to_write_by_hand(tmp_path: Path) -> None:
    with pytest.raises(Usage) as raised:
        find_tool("init", {"PATH": str(tmp_path)}, frozenset(), 0)
    written = raised.value.message.partition("an empty list is ")[2].removesuffix(".")
    queue = parse_queue(written.encode(), "queue.jsonc")
    assert not isinstance(queue, Unusable), queue
    assert (queue.problem, queue.open_task) == (None, None)
    with pytest.raises(Usage) as raised:
        find_tool("task", {"PATH": str(tmp_path)}, frozenset(), 0)
    assert "by hand" not in raised.value.message
    assert "mkdir" not in raised.value.message


@pytest.mark.parametrize("text", ["", "x", "1", "x:1:a", ":::", "-1:1:a", "9999999:1:a", "١:1:a"])
def test_a_guard_that_is_malformed_counts_as_none_or_names_nothing(text: str) -> None:
    assert read_trail(text, 1).met == frozenset()


def test_the_guard_counts_programs_of_this_process_alone() -> None:
    assert read_trail("2:77:1-2,3-4", 77).met == {"1-2", "3-4"}
    assert read_trail("2:77:1-2,3-4", 78) == read_trail("2:78:", 78)
    assert GUARD == "CUELOOP_PASSED_ON"


def test_identity_follows_links_and_tells_nothing_of_what_is_missing(tmp_path: Path) -> None:
    real = program(tmp_path / "x")
    (tmp_path / "y").symlink_to(real)
    assert identity(str(tmp_path / "y")) == identity(str(real)) is not None
    assert identity(str(tmp_path / "z")) is None
    assert identity("a\0b") is None

"""The one line that a login shell reads over there, whatever shell it is and whatever it prints before."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from support.sshd import Sshd

SHELLS: Mapping[str, str] = {"bash": ".bashrc", "dash": "", "zsh": ".zshenv", "fish": ".config/fish/config.fish"}
"""Shell → what it reads at such a start, below the home."""
LOGIN = """\
#!/bin/sh
# As sshd does: the last argument, whole, to the user's shell.
for word; do :; done
exec env -i HOME={home} XDG_RUNTIME_DIR={run} PATH=/usr/bin:/bin {rc} {shell} -c "$word"
"""
NOISE = 60 * 1024


@pytest.fixture(params=SHELLS)
def login(request: pytest.FixtureRequest, box: Sshd) -> Iterator[dict[str, str]]:
    """An ssh whose other side is this shell, which prints a lot, without a line end, before it does what it is told."""
    shell = shutil.which(request.param)
    assert shell is not None, f"these tests need {request.param}"
    rc = box.world.home / SHELLS[request.param]
    if SHELLS[request.param]:
        rc.parent.mkdir(parents=True, exist_ok=True)
        rc.write_text(f"printf '%s' '{'welcome ' * (NOISE // 8)}'\n")
    program = box.folder / "login"
    told = "BASH_ENV=$HOME/.bashrc" if request.param == "bash" else ""
    told = told.replace("$HOME", str(box.world.home))
    program.write_text(LOGIN.format(home=box.world.home, run=box.world.environ["XDG_RUNTIME_DIR"], shell=shell, rc=told))
    program.chmod(0o755)
    yield {"CUELOOP_SSH": str(program)}
    if SHELLS[request.param]:
        rc.unlink()


def test_a_question_and_its_answer(box: Sshd, login: dict[str, str]) -> None:
    odd = box.world.folder / 'it\'s $HOME \\b "q" `x` !! %s'
    if not odd.exists():
        odd.symlink_to(box.world.repository.path)
    done = box.run("session", "show", "--host", f"ssh://box{_quoted(odd)}", environ=login)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"No interrupted session.\n", b"")


def test_a_command_that_is_run_there_and_fails(box: Sshd, login: dict[str, str]) -> None:
    done = box.run("daemon", "logs", "-n", "it's $x \\b", "--host", box.url, environ=login)
    assert done.returncode == 2
    assert b"it's $x" in done.stderr
    assert done.stdout == b""


def test_a_login_over_ssh_whose_rc_file_prints(box: Sshd) -> None:
    """Debian's bash reads .bashrc for sshd, too."""
    rc = box.world.home / ".bashrc"
    rc.write_text(f"printf '%s' '{'welcome ' * (NOISE // 8)}'\n")
    try:
        done = box.run("session", "show", "--host", box.url)
    finally:
        rc.unlink()
    assert (done.returncode, done.stdout) == (0, b"No interrupted session.\n")


def _quoted(path: Path) -> str:
    from urllib.parse import quote

    return quote(str(path))

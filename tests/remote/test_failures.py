"""What goes wrong between the machines: each with a sentence that names the machine and what to do, and nothing left there."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from support.programs import python_program
from support.sshd import Sshd
from support.wire import wait_for


def said(box: Sshd, *argv: str, environ: Mapping[str, str] | None = None, host: str | None = None, code: int = 1) -> str:
    """What a command says that fails."""
    done = box.run(*(argv or ("session", "show")), "--host", host or box.url, environ=environ)
    assert (done.returncode, done.stdout) == (code, b""), (done.returncode, done.stdout, done.stderr)
    text = done.stderr.decode()
    assert "mistake in cueloop" not in text
    return text


def configured(box: Sshd, name: str, *lines: str) -> dict[str, str]:
    """An ssh with other options in front of the usual ones."""
    path = box.folder / name
    path.write_text("\n".join(lines) + "\n" + box.config.read_text().replace("ControlPath", "# ControlPath"))
    return {"CUELOOP_SSH": f"ssh -F {path}"}


@pytest.mark.parametrize("argv", [("session", "show"), ("daemon", "status")])
def test_another_key(box: Sshd, argv: tuple[str, ...]) -> None:
    environ = configured(box, "no-key", "PreferredAuthentications publickey")
    config = Path(environ["CUELOOP_SSH"].split()[-1])
    config.write_text(config.read_text().replace(f"{box.folder}/user\n", f"{box.folder}/stranger\n"))
    told = said(box, *argv, environ=environ)
    assert "No connection to box: " in told
    assert "Permission denied (publickey)" in told
    assert "control master" in told


def test_an_unknown_host_key(box: Sshd) -> None:
    environ = configured(box, "unknown", "UserKnownHostsFile /dev/null")
    assert "No connection to box: Host key verification failed.\nTry it by hand: ssh box." in said(box, environ=environ)


def test_a_closed_port(box: Sshd) -> None:
    with socket.socket() as sock:  # bound and not listening: nobody else takes it
        sock.bind(("127.0.0.1", 0))
        host = f"ssh://127.0.0.1:{sock.getsockname()[1]}/srv/app"
        told = said(box, host=host)
        assert "Connection refused" in told
        document = json.loads(said(box, "machine", "config", "resolve", host=host))
        assert document["code"] == "network_error"


def test_a_machine_that_says_nothing(box: Sshd) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        host = f"ssh://127.0.0.1:{sock.getsockname()[1]}/srv/app"
        told = said(box, "run", "status", "--timeout", "0.3", host=host)
        assert told.startswith(f"cueloop: {host[6:].partition('/')[0]} did not answer within 0.3 s.")


def test_no_ssh(box: Sshd) -> None:
    told = said(box, environ={"CUELOOP_SSH": "/no/such/ssh"})
    assert (
        told
        == "cueloop: /no/such/ssh cannot be started: it is not there.\nInstall OpenSSH's client, or name it in CUELOOP_SSH.\n"
    )
    assert "CUELOOP_SSH is no text" in said(box, environ={"CUELOOP_SSH": "ssh 'open"})


@pytest.mark.parametrize("argv", [("session", "show"), ("daemon", "list")])
def test_no_cueloop_there(box: Sshd, argv: tuple[str, ...]) -> None:
    told = said(box, *argv, environ={"CUELOOP_REMOTE_COMMAND": "/no/such/cueloop"})
    assert "cueloop was not found on box.\n" in told
    assert "CUELOOP_REMOTE_COMMAND=/path/to/cueloop" in told


def test_no_cueloop_on_any_path_there(box: Sshd) -> None:
    programs = box.world.home / ".local" / "bin"
    programs.rename(programs.with_name("elsewhere"))
    try:
        told = said(box)
        document = json.loads(said(box, "machine", "run", "stop"))
    finally:
        programs.with_name("elsewhere").rename(programs)
    assert "cueloop was not found on box.\n" in told
    assert document["code"] == "cli_unavailable"


def test_something_else_there(box: Sshd) -> None:
    told = said(box, environ={"CUELOOP_REMOTE_COMMAND": "echo hello; exit 4;:"})
    assert "cueloop on box ended without a greeting (exit code 4).\nThe last that came: hello" in told


def test_a_login_that_prints_without_end(box: Sshd) -> None:
    assert "prints without an end" in said(box, environ={"CUELOOP_REMOTE_COMMAND": "yes;:"})


def test_another_protocol_there(box: Sshd) -> None:
    source = (
        "import sys\nfrom cueloop_client.commands import dial_stdio\n"
        "number = int(sys.argv.pop(1))\nreal = dial_stdio._versions\n"
        "dial_stdio._versions = lambda: {**real(), 'version': '7.7.7', 'protocol_min': number, 'protocol_max': number}\n"
        "from cueloop_client.main import main\nsys.exit(main())\n"
    )
    program = python_program(box.folder / "other", source, "-P")
    newer = said(box, environ={"CUELOOP_REMOTE_COMMAND": f"{program} 99"})
    assert "cueloop on box (version 7.7.7)" in newer
    assert "This one is the older one: update cueloop here to 7.7.7." in newer
    older = said(box, environ={"CUELOOP_REMOTE_COMMAND": f"{program} 0"})
    assert "The one there is the older one: update cueloop on box to " in older


def test_a_daemon_that_died_there_is_started_again(box: Sshd) -> None:
    box.run("daemon", "start", "--host", box.url)
    [first] = box.world.daemons()
    os.kill(first, signal.SIGKILL)
    done = box.run("session", "show", "--host", box.url)
    assert (done.returncode, done.stderr) == (0, b"")
    [second] = box.world.daemons()
    assert first != second


@pytest.mark.parametrize(
    "lines",
    [
        ("RemoteCommand /bin/false",),
        ("LocalForward 127.0.0.1:1 127.0.0.1:2", "ExitOnForwardFailure yes"),
        ("ControlMaster auto", "ControlPath {folder}/own", "ControlPersist 60"),
        ("PermitLocalCommand yes", "LocalCommand echo noise"),
        ("ForkAfterAuthentication yes", "StdinNull yes"),
        ("SessionType none",),
        ("RequestTTY force",),
        ("IgnoreUnknown NoSuchOption", "NoSuchOption yes"),
        ("EscapeChar none", "Compression yes"),
    ],
    ids=lambda lines: lines[0].split()[0],
)
def test_the_users_own_configuration_is_no_obstacle(box: Sshd, lines: tuple[str, ...]) -> None:
    environ = configured(box, "own-config", *(line.format(folder=box.folder) for line in lines))
    done = box.run("session", "show", "--host", box.url, environ=environ)
    assert (done.returncode, done.stderr) == (0, b"")
    assert not (box.folder / "own").exists()


def test_nothing_is_left_there(box: Sshd) -> None:
    wait_for(lambda: not box.bridges(), "the end of all that was called there", 2.0)

"""Unit files as they are written, for paths of every kind; systemd's own tools look at them where there are any."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from cueloop_client.failures import Failure
from cueloop_client.service.escaping import LONGEST_INSTANCE, escape_path, instance_of, plain, quoted
from cueloop_client.service.sealed import Sealed, seal, standing, state_of, write
from cueloop_client.service.unitfiles import UNITS, own_files, program_of, repository_of, shared_files
from cueloop_client.service.wanted import Wanted, wanted
from cueloop_client.world import real_world
from cueloop_protocol.place import root_hash
from cueloop_protocol.roots import Root

ESCAPED = {
    "/": "-",
    "/home/a/code": "home-a-code",
    "//home//a/": "home-a",
    "/my repo": r"my\x20repo",
    "/a-b": r"a\x2db",
    "/.dot/.dot": r"\x2edot-.dot",
    "/100%": r"100\x25",
    "/q\"'$\\": r"q\x22\x27\x24\x5c",
    "/é": r"\xc3\xa9",
    "/\udcff": r"\xff",
    "/a:b_c.d": "a:b_c.d",
    "/a@b": r"a\x40b",
}
NAMES = [
    "plain",
    " a b ",
    "100%h",
    "$HOME",
    'q"q',
    "it's",
    "back\\slash",
    "end\\",
    "-dash",
    "é",
    "\udcff\udcfe",
    ".dot",
    "a;b #c",
]


@pytest.mark.parametrize("path", ESCAPED)
def test_an_instance_is_the_path_as_systemd_escapes_it(path: str) -> None:
    assert escape_path(path) == ESCAPED[path]
    tool = shutil.which("systemd-escape")
    if tool is not None:
        told = subprocess.run([tool, "--path", path], capture_output=True, timeout=20, check=True).stdout
        assert told.decode().rstrip("\n") == ESCAPED[path]


def test_a_long_path_has_its_hash_for_an_instance() -> None:
    assert instance_of("/" + "a" * LONGEST_INSTANCE, "k" * 16) == "a" * LONGEST_INSTANCE
    assert instance_of("/" + "a" * (LONGEST_INSTANCE + 1), "k" * 16) == "h-" + "k" * 16
    assert instance_of("/" + "é" * 26, "k" * 16) == "h-" + "k" * 16  # what counts is the name as it is written


def test_words_and_values_are_written_so_that_nothing_in_them_counts() -> None:
    assert quoted('a "b" \\ % $c') == '"a \\"b\\" \\\\ %% $c"'
    assert quoted("\udcff\n") == r'"\xff\x0a"'
    assert (plain("a %b"), plain("a\nb"), plain("\udcff")) == ("a %%b", None, None)


def service_of(folder: Path, name: str, program: Path) -> Wanted:
    path = f"{folder}/{name}"
    os.makedirs(f"{path}/.cueloop")
    key = root_hash(Root(path, path))
    argv = (str(program), "-P", "-m", "cueloop_daemon", "--root", path)
    return Wanted(path, key, instance_of(path, key), argv, (("PATH", '/a b:/c%d:/e"f'),))


def text_of(file: Sealed) -> str:
    return file.content.decode()


@pytest.mark.parametrize("name", NAMES)
def test_units_of_any_path_are_understood(tmp_path: Path, name: str) -> None:
    """What systemd itself makes of them is the test; where it is not there, at least each line stands for itself."""
    program = tmp_path / 'py "thon" %$\\'
    shutil.copy("/bin/true", program)
    service = service_of(tmp_path, name, program)
    units = tmp_path / "units"
    files = (*shared_files(str(units)), *own_files(str(units), service))
    for file in files:
        write(file)
        assert state_of(file) == "current"
    assert [repository_of(file.content) for file in files[2:]] == [service.path] * 2
    assert [program_of(file.content) for file in files[2:]] == [str(program)] * 2
    tool = shutil.which("systemd-analyze")
    if tool is not None:
        names = [f"cueloopd@{service.instance}.{kind}" for kind in ("socket", "service")]
        with tempfile.TemporaryDirectory(prefix="clr") as runtime:  # short, as a socket's path has to fit
            environ = {**os.environ, "XDG_RUNTIME_DIR": runtime, "SYSTEMD_UNIT_PATH": f"{units}:"}
            done = subprocess.run(
                [tool, "--user", "verify", "--man=no", *names], env=environ, capture_output=True, timeout=60, check=False
            )
        assert (done.returncode, done.stderr.decode(errors="replace")) == (0, "")


def test_the_drop_ins_say_where_and_what(tmp_path: Path) -> None:
    service = Wanted(
        "/my repo", "0123456789abcdef", r"my\x20repo", ("/v/bin/python", "-P", "--root", "/my repo"), (("PATH", "/bin"),)
    )
    socket, unit = own_files("/u", service)
    assert (socket.path, unit.path) == (
        r"/u/cueloopd@my\x20repo.socket.d/50-cueloop.conf",
        r"/u/cueloopd@my\x20repo.service.d/50-cueloop.conf",
    )
    assert "\nListenStream=\nListenStream=%t/cueloopd/0123456789abcdef/d.sock\n" in text_of(socket)
    assert "\nConditionPathIsDirectory=/my repo/.cueloop\n" in text_of(socket)
    assert '\nExecStart=\nExecStart=:"/v/bin/python" "-P" "--root" "/my repo"\nEnvironment="PATH=/bin"\n' in text_of(unit)
    # A condition in the service would leave the queue full, and systemd would start it again and again.
    assert "Condition" not in text_of(unit) + text_of(shared_files("/u")[1])


def test_the_templates_ask_for_no_sandbox_and_keep_runs() -> None:
    """Each of these is inherited by the agents: no sudo, no containers, no browser; or hides the locks in /tmp (docs/service.md)."""
    socket, service = (text_of(file) for file in shared_files("/u"))
    settings = re.findall(r"^(\w+)=(.*)$", service, re.MULTILINE)
    for word in (
        "NoNewPrivileges",
        "SystemCallFilter",
        "LockPersonality",
        "MemoryDenyWriteExecute",
        "RuntimeDirectory",
        "UMask",
        "User",
    ):
        assert word not in dict(settings)
    assert not [
        name for name, _ in settings if name.startswith(("Private", "Protect", "Restrict")) and name != "RestartPreventExitStatus"
    ]
    kept = {"Type": "notify", "NotifyAccess": "main", "KillMode": "process", "OOMPolicy": "continue", "Restart": "on-failure"}
    assert kept.items() <= dict(settings).items()
    assert {"SocketMode=0600", "DirectoryMode=0700", "FileDescriptorName=cueloopd", "RemoveOnStop=yes"} <= set(
        socket.splitlines()
    )
    assert "Accept=" not in socket


@pytest.mark.parametrize("name", ["a\nb", "a\tb", "a\x7fb"])
def test_a_path_with_control_characters_is_refused_in_words(name: str) -> None:
    with pytest.raises(Failure, match="The repository has a line break or another control character") as refused:
        wanted(Root(f"/x/{name}", f"/x/{name}"), real_world(""))
    assert "commands start the daemon by themselves" in (refused.value.detail or "")


def test_a_seal_tells_ours_from_what_was_changed(tmp_path: Path) -> None:
    file = seal(str(tmp_path / "a/b"), b"[Unit]\nA=1\n")
    assert state_of(file) == "missing"
    write(file)
    assert state_of(file) == "current"
    newer = seal(file.path, b"[Unit]\nA=2\n")
    assert (state_of(newer), standing(file.content)) == ("older", "older")
    Path(file.path).write_bytes(file.content.replace(b"A=1", b"A=3"))
    assert (state_of(file), state_of(newer)) == ("changed", "changed")
    Path(file.path).write_bytes(file.content + b"B=1\n")
    assert state_of(newer) == "changed"
    Path(file.path).write_bytes(b"[Unit]\n")
    assert state_of(file) == "foreign"
    Path(file.path).unlink()
    os.mkdir(file.path)
    assert state_of(file) == "foreign"
    assert sorted(os.listdir(tmp_path / "a")) == ["b"]  # no temporary file


def test_each_template_is_one_of_the_repository_s_top_folder() -> None:
    top = Path(__file__).parents[2] / "systemd"
    assert sorted(os.listdir(top)) == sorted(UNITS)
    for file in shared_files("/u"):
        assert file.content.startswith((top / os.path.basename(file.path)).read_bytes())

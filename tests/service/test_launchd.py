"""launchd's side, as far as it can be looked at without a Mac: the property list, the commands, what is made of launchctl's words."""

from __future__ import annotations

import os
import plistlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cueloop_client.failures import Failure
from cueloop_client.service.installing import install
from cueloop_client.service.launchd import TEMPLATE, Launchd, filled
from cueloop_client.service.platform import manager_of
from cueloop_client.service.removing import uninstall
from cueloop_client.service.sealed import standing, state_of
from cueloop_client.service.templates import template
from cueloop_client.service.wanted import Wanted, wanted
from cueloop_client.world import World, real_world
from cueloop_protocol.place import root_hash
from cueloop_protocol.roots import Root, open_root

KEYS: dict[str, type | tuple[type, ...]] = {
    "Label": str, "ProgramArguments": list, "EnvironmentVariables": dict, "Sockets": dict, "KeepAlive": dict, "RunAtLoad": bool,
    "ProcessType": str, "ThrottleInterval": int, "ExitTimeOut": int, "AbandonProcessGroup": bool, "StandardOutPath": str,
    "StandardErrorPath": str,
}  # fmt: skip
"""launchd.plist(5): the keys that are used, each with the type that launchd wants. An unknown key or a wrong type is passed over there."""
SOCKET_KEYS = {"SockPathName": str, "SockPathMode": int, "SockType": str}
LAUNCHCTL = """#!/bin/sh
echo "$*" >> "$FAKE_MANAGER/calls"
case "$1 $2" in
"print gui/"*cueloop*) cat "$FAKE_MANAGER/job" 2>/dev/null || { echo 'Could not find service' >&2; exit 113; } ;;
"print gui/"*) test ! -e "$FAKE_MANAGER/no-screen" ;;
"bootstrap "*) printf 'job = {\\n\\tstate = waiting\\n\\tlast exit code = (never exited)\\n}\\n' > "$FAKE_MANAGER/job" ;;
"bootout "*) rm "$FAKE_MANAGER/job" ;;
esac
"""


@dataclass
class Mac:
    """A home, a repository, and a launchctl that says little."""

    folder: Path
    root: Root
    world: World

    def calls(self) -> list[str]:
        path = self.folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return [line for line in lines if not line.startswith("print ")]


@pytest.fixture
def mac(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Mac:
    folder = tmp_path_factory.mktemp("m")
    (folder / "repo <&> 100%/.cueloop").mkdir(parents=True)
    home = folder / "h"
    home.mkdir()
    program = folder / "launchctl"
    program.write_text(LAUNCHCTL)
    program.chmod(0o755)
    monkeypatch.setattr(World, "passwd_home", lambda self: str(home))
    monkeypatch.setenv("FAKE_MANAGER", str(folder))
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return Mac(folder, open_root(str(folder / "repo <&> 100%")), real_world(""))


def job_of(mac: Mac) -> dict[str, Any]:
    [file] = Launchd(mac.world).files(wanted(mac.root, mac.world))
    job: dict[str, Any] = plistlib.loads(file.content)
    return job


def test_the_property_list_is_well_formed_and_has_known_keys_of_the_right_types(mac: Mac) -> None:
    job = job_of(mac)
    assert job.keys() == KEYS.keys()
    assert [name for name, kind in KEYS.items() if not isinstance(job[name], kind)] == []
    assert job["Sockets"].keys() == {"cueloopd"}
    socket = job["Sockets"]["cueloopd"]
    assert {name: type(value) for name, value in socket.items()} == SOCKET_KEYS
    assert all(isinstance(word, str) for word in [*job["ProgramArguments"], *job["EnvironmentVariables"].values()])
    assert "@" not in str({**job, "EnvironmentVariables": {}})


def test_it_says_what_is_wanted(mac: Mac) -> None:
    job, key = job_of(mac), root_hash(mac.root)
    home = mac.world.passwd_home()
    assert job["Label"] == f"io.cueloop.cueloopd.{key}"
    assert job["ProgramArguments"][-2:] == ["--root", mac.root.path]
    assert job["EnvironmentVariables"]["PATH"] == os.environ["PATH"]
    assert job["Sockets"]["cueloopd"] == {
        "SockPathName": f"{home}/Library/Caches/cueloopd/{key}/d.sock", "SockPathMode": 0o600, "SockType": "stream",
    }  # fmt: skip
    # SuccessfulExit=false would start it at each login.
    assert (job["KeepAlive"], job["RunAtLoad"], job["ProcessType"]) == ({"Crashed": True}, False, "Standard")


def test_install_loads_the_job_and_uninstall_takes_it_away(mac: Mac) -> None:
    manager = Launchd(mac.world)
    service = wanted(mac.root, mac.world)
    report = install(mac.root, mac.world, manager, force=False)
    path = Path(mac.world.passwd_home(), f"Library/LaunchAgents/{manager.unit(service.key, '')}.plist")
    target = f"gui/{os.getuid()}"
    assert mac.calls() == [f"enable {target}/{manager.unit(service.key, '')}", f"bootstrap {target} {path}"]
    assert [file.done for file in report.files] == ["written"]
    # No launchd here: nobody listens, and that is said.
    assert report.failure == "Nobody listens although launchd was told to."
    folder = Path(mac.world.passwd_home(), "Library/Caches/cueloopd", service.key)
    assert (folder.stat().st_mode & 0o777, folder.parent.stat().st_mode & 0o777) == (0o700, 0o700)
    assert manager.state(service.key, "").is_listening
    [found] = manager.installed()
    assert (found.repository, found.key, found.program) == (mac.root.path, service.key, service.argv[0])
    done = uninstall(manager, mac.root.path, force=False)
    assert (done.found, [file.done for file in done.files], mac.calls()) == (True, ["removed"], [f"bootout {target}/{done.unit}"])
    assert manager.installed() == ()


def test_a_changed_property_list_is_told_from_ours(mac: Mac) -> None:
    manager = Launchd(mac.world)
    install(mac.root, mac.world, manager, force=False)
    [file] = manager.files(wanted(mac.root, mac.world))
    assert (state_of(file), standing(file.content)) == ("current", "older")
    path = Path(file.path)
    path.write_bytes(file.content.replace(b"Standard<", b"Background<"))
    assert state_of(file) == "changed"
    mac.calls()
    report = install(mac.root, mac.world, manager, force=True)
    assert [one.done for one in report.files] == ["replaced"]
    assert mac.calls()[0].startswith("bootout ")  # launchd reads a property list once


def test_without_a_screen_the_job_is_the_user_s(mac: Mac) -> None:
    (mac.folder / "no-screen").touch()
    manager = Launchd(mac.world)
    assert manager.domain == f"user/{os.getuid()}"
    assert "Nobody is logged in at the screen" in manager.advice()[0]


def test_what_cannot_be_said_in_a_property_list_is_refused(mac: Mac) -> None:
    bad = Wanted("/\udcff", "k" * 16, "k", ("/python", "--root", "/\udcff"), (("PATH", "/bin"),))
    with pytest.raises(Failure, match="takes UTF-8 alone"):
        Launchd(mac.world).files(bad)


def test_a_home_that_leaves_no_room_for_a_socket_is_refused(mac: Mac, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(World, "passwd_home", lambda self: "/Users/" + "a" * 70)
    with pytest.raises(Failure, match="too long a path"):
        Launchd(mac.world).files(wanted(mac.root, mac.world))


def test_words_of_launchctl_are_read_as_far_as_they_are_understood(mac: Mac) -> None:
    manager, key = Launchd(mac.world), root_hash(mac.root)
    (mac.folder / "job").write_text(
        "job = {\n\tstate = running\n\tpid = 4711\n\tlast exit code = 0\n\tsockets = {\n\t\tpid = 1\n\t}\n}\n"
    )
    state = manager.state(key, "")
    assert (state.is_running, state.pid, state.problem) == (True, 4711, None)
    (mac.folder / "job").write_text("something else")
    assert (manager.state(key, "").is_running, manager.state(key, "").pid) == (False, None)
    (mac.folder / "job").unlink()
    assert manager.state(key, "").problem is not None


def test_the_template_is_the_file_in_the_repository_and_only_values_are_put_in() -> None:
    source = Path(__file__).parents[2] / "launchd" / TEMPLATE
    assert template("launchd", TEMPLATE) == source.read_bytes()
    assert filled({"a": "@X@", "b": ["@Y@"], "c": {"k": "@Z@"}, "d": ["x", "@X@"]}, {"@X@": "<&", "@Y@": ["1"], "@Z@": {"q": "r"}}) == {
        "a": "<&", "b": ["1"], "c": {"q": "r"}, "d": ["x", "<&"],
    }  # fmt: skip


def test_each_system_has_its_manager(mac: Mac) -> None:
    assert (manager_of(mac.world, "linux").name, manager_of(mac.world, "darwin").name) == ("systemd", "launchd")
    with pytest.raises(Failure, match="no service for this system"):
        manager_of(mac.world, "aix")

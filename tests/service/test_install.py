"""Install, status, logs, uninstall with a stand-in of systemctl: what is written, called, told, and left alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cueloop_client.service.escaping import escape_path
from support.activator import Activator
from support.fixtures import world as world
from support.programs import python_program
from support.world import World

FAKE = Path(__file__).with_name("fake_systemctl.py")


@dataclass
class Bench:
    """A world whose PATH has the stand-ins first, and whose units are in a folder of its own."""

    world: World
    folder: Path

    @property
    def units(self) -> Path:
        return self.world.folder / "config/systemd/user"

    @property
    def instance(self) -> str:
        return escape_path(str(self.world.repository.path))

    @property
    def own(self) -> list[Path]:
        return [self.units / f"cueloopd@{self.instance}.{kind}.d/50-cueloop.conf" for kind in ("socket", "service")]

    @property
    def files(self) -> list[Path]:
        return [self.units / "cueloopd@.socket", self.units / "cueloopd@.service", *self.own]

    def knows(self, **state: str) -> None:
        """What the manager knows from now on."""
        path = self.folder / "state.json"
        before = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**before, **state}))

    def calls(self) -> list[list[str]]:
        """What was called since the last time, looking apart."""
        path = self.folder / "calls"
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        path.unlink(missing_ok=True)
        return [line[2:] for line in lines if "show" not in line and "show-user" not in line]

    def service(self, *argv: str, code: int = 0) -> Any:
        done = self.world.run("service", *argv, "--json")
        assert (done.returncode, done.stderr) == (code, b""), done
        return json.loads(done.stdout)

    def told(self, *argv: str, code: int = 0) -> str:
        done = self.world.run("service", *argv)
        assert (done.returncode, done.stderr) == (code, b""), done
        return done.stdout.decode()


@pytest.fixture
def bench(world: World) -> Bench:
    folder = world.folder / "manager"
    folder.mkdir()
    for name in ("systemctl", "loginctl", "journalctl"):
        python_program(folder / name, FAKE.read_text().replace("os.path.basename(sys.argv[0])", repr(name)), "-IS")
    world.environ |= {
        "PATH": f"{folder}:{world.environ['PATH']}", "FAKE_MANAGER": str(folder), "XDG_CONFIG_HOME": str(world.folder / "config"),
    }  # fmt: skip
    return Bench(world, folder)


@pytest.fixture
def manager(bench: Bench) -> Iterator[Activator]:
    """The socket that the stand-in only says to have."""
    with Activator(bench.world) as manager:
        yield manager


def test_install_writes_four_files_switches_the_socket_on_and_tries_it(bench: Bench, manager: Activator) -> None:
    report = bench.service("install")
    assert [(file["path"], file["done"]) for file in report["files"]] == [(str(path), "written") for path in bench.files]
    socket = f"cueloopd@{bench.instance}.socket"
    assert bench.calls() == [["daemon-reload"], ["enable", "--now", socket]]
    assert (report["works"], report["pid"], report["problem"]) == (True, manager.started[0].pid, None)
    assert sys.executable in bench.own[1].read_text()
    # Again: nothing is written, nothing is called.
    again = bench.service("install")
    assert ({file["done"] for file in again["files"]}, again["commands"], bench.calls()) == ({"unchanged"}, [], [])
    assert "The service works" in bench.told("install")
    status = bench.service("status")
    assert (status["enabled"], status["listening"], status["problems"], status["daemon"]["origin"]) == (True, True, [], "systemd")
    assert {file["state"] for file in status["files"]} == {"current"}


def test_uninstall_leaves_nothing(bench: Bench, manager: Activator) -> None:
    bench.service("install")
    bench.calls()
    done = bench.service("uninstall")
    socket, unit = f"cueloopd@{bench.instance}.socket", f"cueloopd@{bench.instance}.service"
    assert bench.calls() == [["disable", "--now", socket], ["stop", unit], ["daemon-reload"], ["reset-failed", socket, unit]]
    assert ({file["done"] for file in done["files"]}, list(bench.units.iterdir())) == ({"removed"}, [])
    assert bench.service("uninstall")["found"] is False
    assert bench.service("status", code=3)["installed"] is False
    assert "There is no service" in bench.told("status", code=3)


def test_a_dry_run_writes_and_calls_nothing(bench: Bench) -> None:
    told = bench.service("install", "--dry-run")
    assert [file["path"] for file in told["files"]] == [str(path) for path in bench.files]
    assert told["commands"][0] == ["systemctl", "--user", "daemon-reload"]
    text = bench.told("install", "--dry-run")
    assert "ListenStream=%t/cueloopd/" in text
    assert "systemctl --user enable --now" in text
    assert (bench.calls(), bench.units.exists()) == ([], False)
    assert bench.service("uninstall", "--dry-run") == {"files": [], "commands": []}


def test_where_no_systemd_can_be_reached_files_are_written_and_it_says_how_to_go_on(bench: Bench) -> None:
    bench.knows(unreachable="yes")
    report = bench.service("install")
    assert (report["works"], report["problem"]) == (
        False, "The user's systemd cannot be reached: Failed to connect to bus: No medium found.",
    )  # fmt: skip
    assert report["remedy"].startswith("systemctl --user daemon-reload && systemctl --user enable --now ")
    assert all(path.exists() for path in bench.files)
    assert "Until then everything works as before" in bench.told("install")
    assert bench.world.run("session", "show").returncode == 0
    assert bench.service("status", code=1)["problems"][0]["message"].startswith("The user's systemd cannot be reached")
    link = bench.units / f"sockets.target.wants/cueloopd@{bench.instance}.socket"
    link.parent.mkdir()
    link.symlink_to(bench.files[0])
    assert bench.service("uninstall")["problem"] is not None
    assert [path for path in bench.units.rglob("*") if not path.is_dir()] == []
    assert bench.world.run("daemon", "stop").returncode == 0


def test_without_systemctl_it_is_said(bench: Bench) -> None:
    (bench.folder / "systemctl").unlink()
    bench.world.environ["PATH"] = str(bench.folder)
    assert bench.service("install")["problem"] == "This system has no systemctl."


def test_what_a_person_changed_stays_and_is_told(bench: Bench, manager: Activator) -> None:
    bench.service("install")
    drop_in, template = bench.own[1], bench.files[1]
    drop_in.write_text(drop_in.read_text() + "Nice=5\n")
    template.write_text("[Service]\nExecStart=/bin/true\n")
    report = bench.service("install")
    assert [file["done"] for file in report["files"]] == ["unchanged", "kept", "unchanged", "kept"]
    problems = bench.service("status", code=1)["problems"]
    assert [problem["message"] for problem in problems] == [
        f"{template} is not ours, and counts as it is.", f"{drop_in} was changed by somebody, and counts as it is.",
    ]  # fmt: skip
    (drop_in.parent / "override.conf").write_text("[Service]\nNice=7\n")
    assert "kept: it was changed" in bench.told("uninstall")
    assert (drop_in.exists(), template.exists(), bench.own[0].exists()) == (True, True, False)
    forced = bench.service("install", "--force")
    assert [file["done"] for file in forced["files"]] == ["written", "replaced", "written", "replaced"]
    assert "Nice=5" not in drop_in.read_text()
    assert {file["done"] for file in bench.service("uninstall")["files"]} == {"removed"}
    assert [path.name for path in drop_in.parent.iterdir()] == ["override.conf"]


def test_another_interpreter_is_written_anew_and_the_daemon_started_again(bench: Bench, manager: Activator) -> None:
    bench.service("install")
    bench.calls()
    bench.world.environ["PATH"] += ":/elsewhere"
    report = bench.service("install")
    assert [file["done"] for file in report["files"]] == ["unchanged", "unchanged", "unchanged", "written"]
    assert bench.calls()[-1] == ["try-restart", f"cueloopd@{bench.instance}.service"]
    # Another PATH than the one that it was written with is no fault.
    bench.world.environ["PATH"] += ":/another"
    assert bench.service("status")["problems"] == []


def test_an_interpreter_that_is_gone_or_has_another_version_is_told(bench: Bench, manager: Activator) -> None:
    bench.service("install")
    program = python_program(bench.folder / "py thon", "print('9.9.9')")
    text = bench.own[1].read_text()
    line = next(line for line in text.splitlines() if line.startswith("# interpreter: "))
    bench.own[1].write_text(text.replace(line, f"# interpreter: {program}".replace("py thon", "py%20thon")))
    status = bench.service("status", code=1)
    assert status["interpreter"]["version"] == "9.9.9"
    assert any("The service is of another version" in problem["message"] for problem in status["problems"])
    program.write_text("#!/bin/sh\nexit 1\n")
    assert any("has no cueloopd any more" in problem["message"] for problem in bench.service("status", code=1)["problems"])
    program.unlink()
    assert any("is gone" in problem["message"] for problem in bench.service("status", code=1)["problems"])


def test_a_daemon_that_runs_makes_room(bench: Bench) -> None:
    """It would keep the socket's name from the manager. Here none takes over, and that is said, too."""
    daemon = bench.world.start(at_home=True)
    report = bench.service("install", code=1)
    assert (report["replaced_pid"], daemon.process.wait(20)) == (daemon.pid, 0)
    assert report["problem"] == "Nobody listens although systemd was told to."
    assert "It does not work yet" in bench.told("install", code=1)


def test_a_command_of_the_manager_that_fails_is_told(bench: Bench) -> None:
    bench.knows(fails="daemon-reload")
    report = bench.service("install", code=1)
    assert report["problem"] == "systemctl --user daemon-reload: Job failed."


def test_repositories_side_by_side_and_one_that_was_moved(bench: Bench, manager: Activator) -> None:
    other = bench.world.folder / "other repo"
    (other / ".cueloop").mkdir(parents=True)
    bench.service("install")
    bench.knows(unreachable="yes")
    bench.service("install", "--repo", str(other))
    bench.knows(unreachable="")
    assert bench.service("uninstall", "--repo", str(other))["files"][-1]["path"].endswith("50-cueloop.conf")  # templates stay
    bench.service("install", "--repo", str(other), code=1)
    other.rename(other.with_name("moved"))
    assert bench.service("status")["gone"] == [str(other)]
    assert "has lost its repository" in bench.told("status")
    report = bench.service("install")
    assert report["cleaned"] == [str(other)]
    assert bench.service("status")["gone"] == []
    bench.knows(unreachable="yes")
    (other.with_name("moved")).rename(other)
    bench.service("install", "--repo", str(other))
    other.rename(other.with_name("moved"))
    assert bench.service("uninstall", "--repo", str(other))["found"] is True


def test_linger_is_explained_where_it_is_off(bench: Bench, manager: Activator) -> None:
    bench.knows(linger="no")
    report = bench.service("install")
    assert report["advice"][1] == "To keep both, and to have the socket from boot on: loginctl enable-linger"
    assert "Linger is off" in bench.told("status")


def test_what_systemd_says_of_a_failed_unit_is_a_problem_with_its_remedy(bench: Bench, manager: Activator) -> None:
    bench.service("install")
    socket = f"cueloopd@{bench.instance}.socket"
    bench.knows(**{socket: "failed failed enabled 0"})
    [problem] = bench.service("status", code=1)["problems"]
    assert problem["message"] == "The socket has failed (watchdog)."
    assert "systemctl --user reset-failed" in problem["remedy"]
    bench.knows(**{socket: "active listening enabled 0", socket.replace(".socket", ".service"): "failed failed static 0"})
    [problem] = bench.service("status", code=1)["problems"]
    assert problem["message"] == "The daemon's last start failed (watchdog)."


def test_units_go_where_the_manager_reads_them(bench: Bench) -> None:
    """A shell with another XDG_CONFIG_HOME than the manager's would write them where nobody looks."""
    read = bench.world.folder / "home/.config/systemd/user"
    bench.knows(unit_path=f"/run/user/1/systemd/transient {read} /etc/systemd/user")
    told = bench.service("install", "--dry-run")
    assert {os.path.commonpath([file["path"], read]) for file in told["files"]} == {str(read)}


def test_logs_are_the_manager_s(bench: Bench, manager: Activator) -> None:
    done = bench.world.run("service", "logs")
    assert (done.returncode, b"There is no service for" in done.stderr) == (1, True)
    bench.service("install")
    (bench.folder / "calls").unlink()
    assert bench.world.run("service", "logs", "-n", "7", "--follow").returncode == 0
    [call] = [json.loads(line) for line in (bench.folder / "calls").read_text().splitlines() if "journalctl" in line]
    unit = f"--unit=cueloopd@{bench.instance}.service"
    assert call == ["journalctl", "--user", "--no-pager", unit, "--lines=7", "--follow", "--output=short-iso"]


def test_a_folder_that_cannot_be_written_is_said(bench: Bench) -> None:
    Path(bench.world.environ["XDG_CONFIG_HOME"]).write_text("a file")
    done = bench.world.run("service", "install")
    assert (done.returncode, b"cannot be written" in done.stderr) == (1, True)


def test_a_folder_that_is_no_repository_gets_none(bench: Bench) -> None:
    empty = bench.world.folder / "empty"
    empty.mkdir()
    done = subprocess.run(
        [sys.executable, "-P", "-m", "cueloop_client", "service", "install", "--repo", str(empty)],
        env=bench.world.environ, capture_output=True, timeout=30, check=False,
    )  # fmt: skip
    assert (done.returncode, b"has no .cueloop folder" in done.stderr) == (1, True)


def test_a_service_that_failed_is_a_finding_of_the_doctor(bench: Bench, manager: Activator) -> None:
    bench.service("install")

    def findings() -> list[str]:
        done = bench.world.run("doctor", "--json", "--no-versions")
        return [finding["message"] for finding in json.loads(done.stdout)["findings"] if finding["area"] == "service"]

    assert findings() == []
    unit = f"cueloopd@{bench.instance}.service"
    bench.knows(**{unit: "failed failed static 0"})
    [message] = findings()
    assert message.startswith(f"{unit}: ")
    bench.service("uninstall")
    assert findings() == []

"""Asking programs for their versions: all at the same time, with an end, and nothing of theirs lives on."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cueloop_daemon.doctor.programs import OUTPUT_LIMIT, NotStarted, Said, Silent, ask_versions, find_program
from cueloop_protocol.identity import process_start_time
from cueloop_protocol.roots import Caller, open_root
from doctor.lab import AGENTS, Lab, laboratory
from support.wire import wait_for

ENVIRON = {"PATH": "/usr/bin:/bin"}


@pytest.fixture
def lab() -> Iterator[Lab]:
    with laboratory() as lab:
        yield lab


def program(folder: Path, name: str, source: str) -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{source}\n")
    path.chmod(0o755)
    return str(path)


def test_what_they_say_and_how_they_end(tmp_path: Path) -> None:
    well = program(tmp_path, "well", "echo 1.2.3; echo more >&2")
    ill = program(tmp_path, "ill", "echo no; exit 3")
    shot = program(tmp_path, "shot", "kill -9 $$")
    gone = str(tmp_path / "gone")
    answers = ask_versions([well, ill, shot, gone], ENVIRON)
    assert answers[well] == Said(0, "1.2.3\nmore\n")
    assert answers[ill] == Said(3, "no\n")
    assert answers[shot] == Said(-9, "")
    assert isinstance(answers[gone], NotStarted)


def test_the_time_is_for_all_of_them_together(tmp_path: Path) -> None:
    slow = [program(tmp_path, f"slow{n}", "exec sleep 600") for n in range(7)]
    quick = program(tmp_path, "quick", "echo 1.0")
    began = time.monotonic()
    answers = ask_versions([*slow, quick], ENVIRON, 0.5)
    assert time.monotonic() - began < 5
    assert {type(answers[path]) for path in slow} == {Silent}
    assert answers[quick] == Said(0, "1.0\n")


def test_what_they_started_is_ended_with_them(tmp_path: Path) -> None:
    """Also what keeps the pipe open after its parent has answered and left."""
    pid = tmp_path / "pid"
    path = program(tmp_path, "parent", f"sleep 600 & echo $! > {pid}; echo 4.5.6")
    began = time.monotonic()
    assert ask_versions([path], ENVIRON, 10) == {path: Said(0, "4.5.6\n")}
    assert time.monotonic() - began < 5
    wait_for(lambda: process_start_time(int(pid.read_text())) is None, "its child is ended")


def test_they_cannot_read_and_cannot_flood(tmp_path: Path) -> None:
    reader = program(tmp_path, "reader", "cat; echo 1.1")
    flood = program(tmp_path, "flood", "exec yes")
    answers = ask_versions([reader, flood], ENVIRON, 0.5)
    assert answers[reader] == Said(0, "1.1\n")
    assert isinstance(answers[flood], Silent)
    assert OUTPUT_LIMIT == 65536


def test_marks_of_an_outer_agent_are_not_passed_on(tmp_path: Path) -> None:
    path = program(tmp_path, "nested", 'echo "[$CLAUDECODE] $DISABLE_AUTOUPDATER"')
    assert ask_versions([path], {**ENVIRON, "CLAUDECODE": "1"})[path] == Said(0, "[] 1\n")


def test_where_a_program_is_looked_for(tmp_path: Path) -> None:
    root, caller = open_root(str(tmp_path)), Caller(str(tmp_path / "home"), None)
    (tmp_path / "home").mkdir()
    path = program(tmp_path / "home", "one", "")
    assert find_program("~/one", root, caller, ENVIRON).path == path
    assert find_program("home/one", root, caller, ENVIRON).path == path
    assert find_program("one", root, caller, {"PATH": f"/nowhere:{tmp_path}/home"}).path == path
    os.chmod(path, 0o644)
    assert find_program("one", root, caller, {"PATH": f"{tmp_path}/home"}).closed == path
    assert find_program("two", root, caller, ENVIRON).path is None


class TestTheTable:
    def test_all_seven_are_told(self, lab: Lab) -> None:
        lab.asked["with_agents"] = True
        agents = {agent.id: agent for agent in lab.visit().agents}
        assert set(agents) == {"claude", "codex", "gemini", "kimi", "pi", "opencode", "cursor"}
        installed = {id_: agent.version for id_, agent in agents.items() if agent.path is not None}
        assert installed == {"claude": "2.1.332", "codex": "0.171.0", "pi": "1.6.0"}
        assert set(installed) == set(AGENTS)
        assert {agent.problem for id_, agent in agents.items() if id_ not in AGENTS} == {"not installed"}
        assert agents["pi"].used_for == ("plan", "implement", "review")
        assert all(agent.tried for agent in agents.values())

    @pytest.mark.parametrize(
        ("version", "trap"),
        [("1.51.0", "first generation"), ("1.52.0", "retired"), ("2.1.0", "last line"), ("3.0.0", "last line")],
    )
    def test_the_traps_are_those_of_the_version(self, lab: Lab, version: str, trap: str) -> None:
        lab.asked["with_agents"] = True
        lab.play("kimi", f"#!/bin/sh\necho 'kimi version {version}'\n")
        kimi = next(agent for agent in lab.visit().agents if agent.id == "kimi")
        assert kimi.version == version
        assert len(kimi.traps) == 1
        assert trap in kimi.traps[0]

    def test_an_untrusted_repository_names_no_program(self, lab: Lab) -> None:
        mark = lab.world.folder / "was called"
        lab.play("evil", f"#!/bin/sh\n: > '{mark}'\n")
        lab.asked["with_agents"] = True
        lab.repository.configure(pi_bin=str(lab.bin / "evil"), runner="pi")
        document = lab.visit()
        assert [finding.code for finding in document.findings if finding.severity == "error"] == ["project-not-trusted"]
        assert not mark.exists()
        (lab.repository.folder / "trust.jsonc").write_text('{"allow_project_commands": true}')
        lab.visit()
        assert mark.exists()

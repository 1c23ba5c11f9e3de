"""The recorded streams: complete, of the versions that are pinned, and free of the machine they were made on."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from agents.cases import FAILURES, NO_CUT
from agents.clis import CLIS, OLDER
from cueloop_daemon.runners import Conversation, Failed, Succeeded, UnknownRunner, runner_for

HERE = Path(__file__).parent
STREAMS = HERE.parent / "data/streams"
PINNED = json.loads((HERE / "package.json").read_text())["dependencies"]
CONTINUING = {"resumed", "gone", "malformed", "forgotten", "resumed-api-400"}
EVERY = sorted(path.relative_to(STREAMS).with_suffix("").as_posix() for path in STREAMS.glob("**/*.json"))
ABSOLUTE = re.compile(r"(?<![\w.:/~-])/(?:Users|build|data|home|mnt|opt|private|root|srv|tmp|usr|var|work)\b[^\s\"'`,)\\]*")


def facts_of(name: str) -> Any:
    return json.loads((STREAMS / f"{name}.json").read_text())


@pytest.mark.parametrize("cli", sorted(CLIS))
def test_each_cli_has_every_case(cli: str) -> None:
    wanted = {"fresh", "resumed", "gone", "malformed", "forgotten", "resumed-api-400", "login"} | {
        f"api-{status}" for status in FAILURES[cli]
    }
    if cli not in NO_CUT:
        wanted |= {"cut"}
    if CLIS[cli].choose:
        wanted |= {"chosen", "chosen-again"}
    assert {path.stem for path in (STREAMS / cli).glob("*.json")} == wanted


@pytest.mark.parametrize("name", EVERY)
def test_a_recording_says_what_it_is(name: str) -> None:
    facts = facts_of(name)
    older = name.startswith("older/")
    cli = OLDER[f"{facts['cli']}-1"] if older else CLIS[facts["cli"]]
    assert name == f"{'older/' if older else ''}{facts['cli']}/{facts['case']}"
    assert facts["version"] == (cli.from_pypi if older else PINNED[cli.package]), "record anew: python tests/agents/record.py"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", facts["date"])
    assert facts["argv"][0] == facts["cli"]
    verdict = facts["expect"]["verdict"]
    assert verdict in ("succeeded", "gone", "failed", "login")
    assert (verdict == "succeeded") == bool(facts["expect"].get("id"))
    assert bool(facts["asked"]) == (facts["case"] in CONTINUING)


@pytest.mark.parametrize("path", sorted((STREAMS / "older").glob("*/*.json")), ids=lambda path: path.stem)
def test_an_older_generation_is_read_as_what_it_means(path: Path) -> None:
    facts = json.loads(path.read_text())
    runner = runner_for(facts["cli"], {})
    assert not isinstance(runner, UnknownRunner)
    reader = runner.with_version(facts["version"]).reader()
    reader.feed(path.with_suffix(".out").read_bytes())
    reader.feed_err(path.with_suffix(".err").read_bytes())
    asked = Conversation(facts["asked"]["id"]) if facts["asked"] else None
    verdict = reader.verdict(facts["exit"], None, resumed=asked)
    assert isinstance(verdict, {"succeeded": Succeeded, "failed": Failed}[facts["expect"]["verdict"]])
    if isinstance(verdict, Succeeded):
        assert verdict.conversation is not None
        assert verdict.conversation.id == facts["expect"]["id"]


def test_an_older_generation_was_recorded() -> None:
    assert {path.parent.name for path in STREAMS.glob("older/*/fresh.json")} == {"kimi"}


@pytest.mark.parametrize("cli", sorted(CLIS))
def test_a_resumed_conversation_answered_under_the_id_that_was_asked_for(cli: str) -> None:
    fresh, resumed = facts_of(f"{cli}/fresh"), facts_of(f"{cli}/resumed")
    assert fresh["expect"]["id"] == resumed["asked"]["id"] == resumed["expect"]["id"]


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("suffix", [".out", ".err", ".json"])
def test_nothing_of_the_machine_is_left(name: str, suffix: str) -> None:
    text = (STREAMS / f"{name}{suffix}").read_text()
    paths = set(ABSOLUTE.findall(text))
    assert {path for path in paths if not path.startswith(("/home/person", "/opt/agents", "/usr/bin"))} == set()
    assert set(re.findall(r"127\.0\.0\.1:(\d+)", text)) <= {"8080"}


def test_the_lock_file_pins_versions_and_names_no_host() -> None:
    lock = json.loads((HERE / "package-lock.json").read_text())
    assert lock["packages"][""]["dependencies"] == PINNED
    assert all(re.fullmatch(r"[\d.]+", version) for version in PINNED.values())
    assert [name for name, entry in lock["packages"].items() if "resolved" in entry] == []
    assert [name for name, entry in lock["packages"].items() if name and "integrity" not in entry] == []

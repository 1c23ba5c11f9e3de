"""Every case with the CLIs as they are installed: what `cueloop_daemon.runners` reads from their streams is what the case means.

Only for `make agents`. A difference from the recordings means that a CLI has changed: record anew, look at what changed, and pin.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agents.cases import FIRST_WORD, MESSAGE, PROMPT, Case
from agents.cli import Cli, Place
from agents.clis import CLIS
from agents.record import Done, performed
from agents.standin import Asked, StandIn
from agents.workshop import lay_programs
from cueloop_daemon.runners import Conversation, Failed, Gone, LoginNeeded, Succeeded, UnknownRunner, Verdict, runner_for

WORDS: dict[type[Verdict], str] = {Succeeded: "succeeded", Gone: "gone", Failed: "failed", LoginNeeded: "login"}


@dataclass
class Tried:
    """Everything that was tried with one CLI, by case, and what the stand-in saw meanwhile."""

    cli: Cli
    cases: dict[str, Case] = field(default_factory=dict)
    done: dict[str, Done] = field(default_factory=dict)
    asked: dict[str, tuple[Asked, ...]] = field(default_factory=dict)
    strangers: set[str] = field(default_factory=set)


@pytest.fixture(scope="module", params=sorted(CLIS))
def tried(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tried:
    base: Path = tmp_path_factory.mktemp(request.param)
    found = Tried(CLIS[request.param])
    with StandIn() as stand_in:
        place = Place(base / "home", base / "project", stand_in.port)
        lay_programs(place)
        for case, done in performed(found.cli, place, stand_in):
            found.cases[case.name], found.done[case.name] = case, done
            found.asked[case.name] = stand_in.asked
            found.strangers |= set(stand_in.strangers)
            stand_in.forget()
    return found


def verdict_of(case: Case, cli: Cli, done: Done) -> Verdict:
    runner = runner_for(cli.name, {})
    assert not isinstance(runner, UnknownRunner)
    reader = runner.with_version(cli.version).reader()
    reader.feed(done.stdout.encode())
    reader.feed_err(done.stderr.encode())
    resumed = Conversation(case.asked, file=case.file) if case.asked else None
    return reader.verdict(done.returncode, None, resumed=resumed)


def test_each_stream_is_read_as_what_it_means(tried: Tried) -> None:
    read = {name: WORDS[type(verdict_of(case, tried.cli, tried.done[name]))] for name, case in tried.cases.items()}
    assert read == {name: case.verdict for name, case in tried.cases.items()}


def test_a_resumed_conversation_shows_the_model_what_was_said_before(tried: Tried) -> None:
    (asked,) = tried.asked["resumed"]
    assert PROMPT in asked.said
    assert FIRST_WORD in asked.said
    assert asked.said.index(FIRST_WORD) < asked.said.index(MESSAGE)


def test_a_resumed_conversation_keeps_its_id(tried: Tried) -> None:
    fresh, resumed = (verdict_of(tried.cases[name], tried.cli, tried.done[name]) for name in ("fresh", "resumed"))
    assert isinstance(fresh, Succeeded)
    assert isinstance(resumed, Succeeded)
    assert fresh.conversation is not None
    assert resumed.conversation is not None
    assert fresh.conversation.id == resumed.conversation.id


def test_a_conversation_that_is_gone_shows_the_model_nothing_of_before(tried: Tried) -> None:
    said = [asked.said for name in ("gone", "malformed", "forgotten") for asked in tried.asked[name]]
    assert not [text for text in said if PROMPT in text or FIRST_WORD in text]


def test_nothing_outside_is_sought_but_what_has_no_switch(tried: Tried) -> None:
    assert [address for address in tried.strangers if not re.fullmatch(tried.cli.reaches, address)] == []

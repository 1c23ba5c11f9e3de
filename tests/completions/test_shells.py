"""Tab in real shells, on a terminal, with a daemon that runs: what is offered, what is shown, and what is then called."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.fixtures import shared as shared
from support.repository import queue, task
from support.shells import Shell, shell
from support.world import Daemon, World

HOSTILE = (
    "$(touch pwned)",
    "`touch pwned`",
    "a b",
    "it's; touch pwned",
    'd"q && touch pwned',
    "w>pwned",
    "back\\slash",
    "é|x",
    "!!",
    "~x",
)
TITLE = "Second: \x1b]0;pwned\x07 $(touch pwned)\nand more"


@pytest.fixture(scope="module", params=["bash", "zsh", "fish"])
def opened(
    request: pytest.FixtureRequest, shared: tuple[World, Daemon], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shell]:
    world, _ = shared
    names = {name: {"phases": 1} for name in (*HOSTILE, "two\nlines")}
    world.repository.folder.joinpath("queue.jsonc").write_bytes(
        queue(task(1, "doing"), task(2, "todo", title=TITLE), task(3, "done"))
    )
    world.repository.folder.joinpath("config.jsonc").write_text(json.dumps({"version": 2, "profiles": names}))
    (world.repository.path / "a folder; touch pwned").mkdir(exist_ok=True)
    folder = tmp_path_factory.mktemp(str(request.param)) / "a b"
    with shell(str(request.param), folder, world.repository.path, world.environ) as made:
        yield made
    assert list(world.repository.path.rglob("pwned")) == []


@pytest.mark.parametrize(
    ("typed", "called"),
    [
        ("cueloop sess", ["session"]),
        ("cueloop session sh", ["session", "show"]),
        ("cueloop --no-d", ["--no-daemon"]),
        ("cueloop run one --eff", ["run", "one", "--effort"]),
        ("cueloop run one --effort h", ["run", "one", "--effort", "high"]),
        ("cueloop run one --effort=h", ["run", "one", "--effort=high"]),
        ("cueloop run one -e h", ["run", "one", "-e", "high"]),
        ("cueloop machine run one --runner cl", ["machine", "run", "one", "--runner", "claude"]),
        ("cueloop help exit", ["help", "exit-codes"]),
        ("cueloop --repo a", ["--repo", "a folder; touch pwned"]),
        ("cueloop --repo=a", ["--repo=a folder; touch pwned"]),
    ],
)
def test_what_tab_makes_of_a_line(opened: Shell, typed: str, called: list[str]) -> None:
    opened.call_of(typed, called)


def test_tasks_are_shown_with_their_titles_and_completed(opened: Shell) -> None:
    shown = opened.list_of(
        "cueloop run one --id ", "RQ-0001", "Task 1 (doing)", "RQ-0002", "Second: ]0;pwned $(touch pwned) and more"
    )
    assert "\x1b]0;pwned" not in shown
    assert "RQ-0003" not in opened.shown
    opened.call_of("cueloop run one --id=RQ-0001", ["run", "one", "--id=RQ-0001"])


@pytest.mark.parametrize("name", HOSTILE)
def test_no_candidate_becomes_anything_but_a_word(opened: Shell, name: str) -> None:
    """Typed up to where it is the only one, in the way a person would: with a backslash."""
    start = name[0] if name[0].isalnum() else f"\\{name[0]}"
    opened.call_of(f"cueloop run one --profile {start}", ["run", "one", "--profile", name])


def test_behind_an_equals_sign_and_within_open_quotes(opened: Shell) -> None:
    opened.call_of("cueloop run one --profile=\\$", ["run", "one", f"--profile={HOSTILE[0]}"])
    opened.call_of("cueloop run one --profile 'a", ["run", "one", "--profile", "a b"])
    opened.call_of('cueloop run one --profile "a', ["run", "one", "--profile", "a b"])


def test_a_command_of_the_other_tool_is_left_as_it_is(opened: Shell) -> None:
    opened.call_of("cueloop task do", ["task", "do"])


def test_zsh_with_the_script_in_its_own_settings(shared: tuple[World, Daemon], tmp_path: Path) -> None:
    world, _ = shared
    with shell("zsh", tmp_path / "sourced", world.repository.path, world.environ, sourced=True) as made:
        made.call_of("cueloop session sh", ["session", "show"])

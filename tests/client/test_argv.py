"""What a command line means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cueloop_client.argv import Help, Later, Ours, PassedOn, Version, Wrong, meaning, near
from cueloop_client.pages import help_page
from cueloop_client.table import COMMANDS, GROUPS, LATER

OURS = [
    ("machine config resolve", "machine config resolve", ""),
    ("--no-daemon machine config resolve", "machine config resolve", "--no-daemon"),
    (
        "--color never --no-color -v machine workspace overview",
        "machine workspace overview",
        "--color=never --no-color --verbose",
    ),
    ("machine run stop --dry-run", "machine run stop", "--dry-run"),
    ("session show --json", "session show", "--json"),
    ("--json session show", "session show", "--json"),
    ("--repo /a session clear --yes", "session clear", "--repo=/a --yes"),
    ("--repo=/a events -f --kind warning", "events", "--repo=/a -f --kind warning"),
    ("daemon logs -n 5", "daemon logs", "-n 5"),
    ("--auto-fix --no-sanity-checks daemon status", "daemon status", "--auto-fix --no-sanity-checks"),
]


@pytest.mark.parametrize(("line", "command", "rest"), OURS, ids=[row[0] for row in OURS])
def test_ours(line: str, command: str, rest: str) -> None:
    assert meaning(line.split()) == Ours(tuple(command.split()), tuple(rest.split()))


PASSED = [
    ("task done RQ-0001", "task done"),
    ("queue add --title x", "queue add"),
    ("init", "init"),
    ("machine queue read", "machine queue read"),
    ("machine config show", "machine config show"),
    ("machine run parallel-status", "machine run parallel-status"),
    ("machine run", "machine run"),
    ("machine", "machine"),
    ("run parallel status", "run parallel"),
    ("--no-color machine queue read", "machine queue read"),
    ("-v task list", "task list"),
    ("--color always task list", "task list"),
    ("--frobnicate task list", "task list"),
    ("help task", "help task"),
    ("machine queue --help", "machine queue"),
    ("task --help", "task"),
    ("task --repo /x", "task"),
]


@pytest.mark.parametrize(("line", "name"), PASSED, ids=[row[0] for row in PASSED])
def test_passed_on_untouched(line: str, name: str) -> None:
    assert meaning(line.split()) == PassedOn(name, tuple(line.split()))


def test_rust_always_means_the_other_tool_without_the_word_itself() -> None:
    assert meaning(["rust", "run", "one", "--id", "x"]) == PassedOn("rust", ("run", "one", "--id", "x"))
    assert meaning(["rust", "daemon", "status"]) == PassedOn("rust", ("daemon", "status"))
    assert meaning(["rust"]) == PassedOn("rust", ())


@pytest.mark.parametrize("option", ["--repo /x", "--repo=/x", "--host ssh://a", "--no-daemon", "--json", "--timeout 3"])
@pytest.mark.parametrize("command", ["task list", "rust task list", "machine queue read", "run parallel"])
def test_options_of_ours_before_a_command_that_is_passed_on_are_an_error_that_says_so(option: str, command: str) -> None:
    told = meaning([*option.split(), *command.split()])
    assert isinstance(told, Wrong)
    assert option.split()[0].split("=")[0] in told.message
    assert "passed on" in told.message


@pytest.mark.parametrize("words", sorted(LATER))
def test_a_command_that_is_not_built_yet_is_never_passed_on(words: tuple[str, ...]) -> None:
    assert meaning([*words, "--whatever", "x"]) == Later(words)
    assert meaning(["--no-color", *words]) == Later(words)


@pytest.mark.parametrize("line", ["", "--help", "-h", "--no-color", "--help session", "--version --help"])
def test_help(line: str) -> None:
    assert meaning(line.split()) == Help(())


@pytest.mark.parametrize(
    ("line", "about"),
    [
        ("help", ()),
        ("help session", ("session",)),
        ("help session show", ("session", "show")),
        ("help machine", ("machine",)),
        ("help fleet", ("fleet",)),
        ("machine --help", ("machine",)),
        ("machine -h", ("machine",)),
        ("machine config --help", ("machine", "config")),
        ("machine run --help", ("machine", "run")),
    ],
)
def test_help_of_what_is_ours_in_part(line: str, about: tuple[str, ...]) -> None:
    assert meaning(line.split()) == Help(about)
    page = help_page(about)
    assert all(" ".join(words) in page for words in COMMANDS if words[: len(about)] == about)
    if about[:1] == ("machine",):
        assert f"cueloop rust {' '.join(about)} --help" in page


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("sesion show", "session show"),
        ("evnts", "events"),
        ("machine config resolv", "machine config resolve"),
        ("deamon", "daemon"),
        ("queue", None),
        ("task done", None),
    ],
)
def test_what_was_probably_meant(typed: str, meant: str | None) -> None:
    assert near(typed) == meant


@pytest.mark.parametrize("words", sorted(COMMANDS))
def test_every_command_has_help_wherever_the_option_stands(words: tuple[str, ...]) -> None:
    assert meaning([*words, "--help"]) == Help(words)
    assert meaning([*words, "--json", "-h"]) == Help(words)


@pytest.mark.parametrize("group", sorted(GROUPS))
def test_a_group_has_help_and_is_no_command(group: tuple[str, ...]) -> None:
    assert meaning([*group, "--help"]) == Help(group)
    told = meaning(group)
    assert isinstance(told, Wrong)
    assert all(word in told.message for word in GROUPS[group])


@pytest.mark.parametrize("line", ["--version", "-V", "--no-color --version", "--version --json", "--json -V session show"])
def test_version(line: str) -> None:
    assert meaning(line.split()) == Version("--json" in line)


@pytest.mark.parametrize(
    "line", ["--jsn", "--jsn session show", "--json=1 session show", "session frob", "daemon frob x", "--repo"]
)
def test_wrong(line: str) -> None:
    assert isinstance(meaning(line.split()), Wrong)


@given(st.lists(st.sampled_from(["task", "machine", "run", "one", "-v", "--", "-", "x", "--help", "--json", "session", "é", ""])))
def test_any_arguments_have_a_meaning_and_what_is_passed_on_is_untouched(argv: list[str]) -> None:
    told = meaning(argv)
    if isinstance(told, PassedOn) and "rust" not in argv:
        assert list(told.argv) == argv

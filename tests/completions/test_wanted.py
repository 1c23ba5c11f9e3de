"""What may stand at the cursor: read from the tables of commands, so that each of them is completed."""

from __future__ import annotations

import pytest

from cueloop_client.argv import GLOBAL, SHELLS, Complete, meaning
from cueloop_client.complete_scripts import script
from cueloop_client.complete_values import RUNNERS, Files, Live, closed_words
from cueloop_client.complete_wanted import UNOFFERED, wanted
from cueloop_client.run_flags import SETTINGS
from cueloop_client.table import COMMANDS, LATER
from cueloop_client.topics import TOPICS
from cueloop_protocol.documents.session import RUNNERS as BUILT_IN


def offered(line: str) -> list[str]:
    """The words for a line whose last word is being typed."""
    return [one.value for one in wanted(line.split(" ")).words]


def test_the_first_words_are_all_that_begin_a_command_of_ours() -> None:
    assert set(offered("")) == {command[0] for command in COMMANDS} | {"help", "rust"}
    assert not set(offered("")) & {command[0] for command in LATER}


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_each_word_of_each_command_is_offered_with_what_it_is(command: tuple[str, ...]) -> None:
    for depth in range(len(command)):
        for before in ([], ["--json"], ["--repo", "x"], ["--repo=x", "--no-color"]):
            found = wanted([*before, *command[:depth], command[depth][:1]]).words
            (one,) = [one for one in found if one.value == command[depth]]
            assert one.about
    assert one.about == COMMANDS[command].summary
    assert wanted([*command, ""]).words == ()


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_each_option_of_each_command_is_offered_until_it_is_given(command: tuple[str, ...]) -> None:
    entry = COMMANDS[command]
    flags = [flag for flag in (*GLOBAL, *entry.flags) if not any(text in flag.help for text in UNOFFERED)]
    names = {f"--{flag.name}" for flag in flags if entry.without_daemon or flag.name != "no-daemon"}
    assert {one.value for one in wanted([*command, "--"]).words} == names
    for flag in entry.flags:
        given = [f"--{flag.name}"] if flag.value is None else [f"--{flag.name}", "x"]
        is_offered = f"--{flag.name}" in offered(" ".join([*command, *given, "--"]))
        assert is_offered == (flag.repeats and f"--{flag.name}" in names)


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_offers_what_it_has_pages_for(command: tuple[str, ...]) -> None:
    for depth in range(len(command)):
        assert command[depth] in offered(" ".join(["help", *command[:depth], ""]))
    assert set(TOPICS) <= set(offered("help "))
    assert offered("help exit") == ["exit-codes"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--color a", ["auto", "always"]),
        ("run one --effort=", ["low", "medium", "high", "xhigh"]),
        ("run one --effort-phase2 ", ["low", "medium", "high", "xhigh"]),
        ("run one -e m", ["medium"]),
        ("run loop --phases ", ["1", "2", "3"]),
        ("run one --runner-phase3 c", ["claude", "codex", "cursor"]),
        ("run one --profile ", ["safe", "power-user"]),
        ("run one --git-publish-mode c", ["commit", "commit_and_push"]),
        ("events --kind w", ["warning"]),
        ("--json events --kind=phase_e", ["phase_entered"]),
        ("run one --wait-poll-ms ", []),
        ("run one --model ", []),
        ("run one --no-daemon=", []),
        ("run one --nothing=", []),
        ("run one -- --f", []),
        ("session --j", []),
        ("session --h", ["--help"]),
        ("task ", []),
        ("task --h", []),
        ("machine queue ", []),
        ("rust ", []),
        ("help task ", []),
        ("session show x", []),
    ],
)
def test_what_is_offered(line: str, words: list[str]) -> None:
    assert offered(line) == words


def test_an_option_behind_the_equals_sign_keeps_what_stands_before_it() -> None:
    found = wanted(["run", "one", "--effort=h"])
    assert (found.before, found.prefix) == ("--effort=", "h")


@pytest.mark.parametrize(
    ("line", "source"),
    [
        ("--repo x", Files("folders")),
        ("session show --repo=", Files("folders")),
        ("run one --id ", Live("tasks")),
        ("machine run one --id=RQ", Live("tasks")),
        ("run status --run-id ", Live("runs")),
        ("run one --runner-phase1 ", Live("runners")),
        ("run one --profile ", Live("profiles")),
        ("run one --effort ", None),
    ],
)
def test_what_the_repository_or_the_file_system_knows(line: str, source: Live | Files | None) -> None:
    found = wanted(line.split(" "))
    assert (found.live or found.files) == source


def test_which_repository_is_meant() -> None:
    assert wanted(["--repo", "/a", "--no-daemon", "run", "one", "--id", ""]).given == {"repo": "/a", "no-daemon": ""}
    assert wanted(["run", "one", "--repo=/b", "--id", ""]).given == {"repo": "/b"}


def test_every_option_whose_help_lists_its_words_has_them_completed() -> None:
    for flag in SETTINGS:
        if flag.value in ("MODE", "SWITCH", "FORMAT", "HOW", "POLICY", "EFFORT", "N"):
            assert closed_words(flag), flag.name


def test_the_runners_are_the_protocols() -> None:
    assert RUNNERS == BUILT_IN


@pytest.mark.parametrize("name", SHELLS)
def test_each_shell_has_a_command_and_a_script_that_asks_for_it(name: str) -> None:
    assert ("completions", name) in COMMANDS
    assert f"command cueloop complete {name} --" in script(name)


def test_only_what_the_scripts_send_is_a_question() -> None:
    assert meaning(["complete", "zsh", "--", ""]) == Complete("zsh", ("",))
    for line in ("complete", "complete zsh", "complete zsh --", "complete tcsh -- x", "complete zsh x y"):
        assert not isinstance(meaning(line.split()), Complete)

"""Help that stands alone: the same page however it is asked for, examples that are real, every variable and exit code explained."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import cueloop_client
from client.fakes import Recorder, make_world
from cueloop_client import failures
from cueloop_client.argv import GLOBAL, Help, Ours, PassedOn, meaning
from cueloop_client.context import make_context
from cueloop_client.flags import parse
from cueloop_client.main import run
from cueloop_client.pages import help_page
from cueloop_client.table import COMMANDS, GROUPS, LATER
from cueloop_client.topics import EXIT_CODES, TOPICS, VARIABLES

PARTS = sorted({command[:depth] for command in COMMANDS for depth in range(1, len(command))} - {("run",), ("machine",)})
NOT_FOR_PEOPLE = {"CUELOOP_PASSED_ON", "PYTHONPATH", "PYTHONUSERBASE"}
"""Read, but not to be set: a guard of our own, and what Python itself explains."""


def page(*argv: str) -> str:
    recorder = Recorder()
    assert run(argv, make_world({"PATH": "/nonexistent"}, recorder)) == 0
    assert recorder.err == ""
    return recorder.out


def example_of(text: str) -> list[str]:
    """The command line of the example at a page's end, up to a pipe or the like, without variables set before it."""
    (line,) = [line.removeprefix("Example: ") for line in text.splitlines() if line.startswith("Example: ")]
    words = shlex.split(re.split(r" (?:\||\|\||>|&&) ", line)[0])
    return words[words.index("cueloop") + 1 :]


@pytest.mark.parametrize("words", [*sorted(COMMANDS), *PARTS, ("run",), ("machine",), *sorted(LATER)])
def test_help_before_and_after_are_the_same_page(words: tuple[str, ...]) -> None:
    assert page("help", *words) == help_page(words)
    if words not in LATER:
        assert page(*words, "--help") == page(*words, "-h") == help_page(words)


@pytest.mark.parametrize("words", sorted(COMMANDS))
def test_the_example_of_a_command_is_taken_by_its_own_parser(words: tuple[str, ...]) -> None:
    argv = example_of(help_page(words))
    asked = meaning(argv)
    assert isinstance(asked, Ours)
    assert asked.command == words
    command = COMMANDS[words]
    assert make_context(make_world({}), command, parse((*GLOBAL, *command.flags), asked.argv)).command is command


@pytest.mark.parametrize("about", [(), *GROUPS, ("machine",), *((topic,) for topic in TOPICS)])
def test_the_example_of_any_other_page_is_a_command(about: tuple[str, ...]) -> None:
    assert isinstance(meaning(example_of(help_page(about))), Ours | PassedOn)


@pytest.mark.parametrize("about", [(), *sorted(COMMANDS), *PARTS, *((topic,) for topic in TOPICS)])
def test_a_page_fits_and_ends_with_one_line_end(about: tuple[str, ...]) -> None:
    text = help_page(about)
    assert max(map(len, text.splitlines())) <= 140
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert "Traceback" not in text


@pytest.mark.parametrize("topic", sorted(TOPICS))
def test_a_topic_has_a_page_and_the_overview_names_it(topic: str) -> None:
    assert meaning(["help", topic]) == Help((topic,))
    assert f"cueloop help {topic}" in help_page(())


def test_every_variable_that_the_command_line_reads_is_explained() -> None:
    read = set()
    for path in Path(cueloop_client.__file__).parent.rglob("*.py"):
        read |= set(re.findall(r"environ(?:\.get\(|\[)\"([A-Z][A-Z0-9_]+)\"", path.read_text()))
        read |= set(re.findall(r"^VARIABLE = \"([A-Z_]+)\"", path.read_text(), re.M))
    assert read - NOT_FOR_PEOPLE <= set(VARIABLES)
    assert all(name in help_page(("environment",)) for name in VARIABLES)


def test_every_exit_code_is_explained() -> None:
    named = {value for name, value in vars(failures).items() if name.isupper() and type(value) is int}
    assert {str(code) for code in named} == set(EXIT_CODES)
    assert all(f"  {code}" in help_page(("exit-codes",)) for code in EXIT_CODES)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_page_of_completions_says_where_the_script_goes(shell: str) -> None:
    assert COMMANDS["completions", shell].example in help_page(("completions",))
    assert page("completions", shell).startswith(("# cueloop in ", "#compdef cueloop\n# cueloop in "))

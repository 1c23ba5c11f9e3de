"""The client's own tables agree with the protocol's, and every command has what a command needs."""

from __future__ import annotations

import importlib
import inspect
from typing import get_args

import pytest

import cueloop_client
import cueloop_client.api
from cueloop_client.argv import GLOBAL
from cueloop_client.calling import READING, WITH_CALLER
from cueloop_client.note_text import KINDS
from cueloop_client.pages import help_page, not_yet
from cueloop_client.reach import PROTOCOL
from cueloop_client.table import COMMANDS, GROUPS, LATER
from cueloop_protocol.documents.envelope import EventKind
from cueloop_protocol.methods import METHODS
from cueloop_protocol.shapes import OLDEST_PROTOCOL_VERSION, PROTOCOL_VERSION


def test_the_protocol_version_is_the_packages() -> None:
    assert OLDEST_PROTOCOL_VERSION <= PROTOCOL == PROTOCOL_VERSION


def test_the_kinds_are_the_protocols() -> None:
    assert get_args(EventKind) == KINDS


def test_the_methods_that_take_a_caller_are_the_protocols() -> None:
    assert {name for name, spec in METHODS.items() if "caller" in spec.params.model_fields} == WITH_CALLER


def test_what_is_sent_twice_exists_and_changes_nothing() -> None:
    assert set(METHODS) >= READING
    assert not {name for name in READING if name.startswith("run.") or name in ("session.clear", "daemon.shutdown")}


@pytest.mark.parametrize("words", sorted(COMMANDS))
def test_every_command_has_a_module_and_a_page_with_an_example(words: tuple[str, ...]) -> None:
    command = COMMANDS[words]
    run = importlib.import_module(f"cueloop_client.commands.{command.module}").run
    assert list(inspect.signature(run).parameters) == ["context"]
    page = help_page(words)
    assert page.startswith(f"{command.summary}.\n\nusage: cueloop {' '.join(words)}")
    assert f"Example: cueloop {' '.join(words)}" in page
    assert all(f"--{flag.name}" in page for flag in command.flags)
    assert ("--no-daemon" in page) == command.without_daemon


def test_no_option_has_two_meanings() -> None:
    for command in COMMANDS.values():
        names = [flag.name for flag in (*GLOBAL, *command.flags)]
        shorts = [flag.short for flag in (*GLOBAL, *command.flags) if flag.short]
        assert len(names) == len(set(names))
        assert len(shorts) == len(set(shorts))


def test_groups_are_what_their_commands_say() -> None:
    every = {*COMMANDS, *LATER}
    for group, words in GROUPS.items():
        assert {(*group, word) for word in words} == {name for name in every if name[: len(group)] == group and len(name) == 2}
        assert "Example: " in help_page(group)


def test_the_overview_names_everything() -> None:
    page = help_page(())
    for name in [" ".join(words) for words in COMMANDS] + list(LATER.values()):
        assert name in " ".join(page.split())
    assert "Passed on" in page
    assert "CUELOOP_RUST_BIN" in page
    assert all(len(line) <= 130 for line in page.splitlines())


@pytest.mark.parametrize("words", sorted(LATER))
def test_what_is_not_built_yet_says_so_in_one_sentence(words: tuple[str, ...]) -> None:
    told = not_yet(words)
    assert f"`{' '.join(words)}` is not in this version yet" in told
    assert "\n" not in told


@pytest.mark.parametrize("door", [cueloop_client, cueloop_client.api])
def test_a_door_opens_what_it_says(door: object) -> None:
    names: list[str] = door.__all__  # type: ignore[attr-defined]
    assert dir(door) == sorted(names)
    for name in names:
        assert getattr(door, name) is not None
    with pytest.raises(AttributeError):
        door.nothing  # type: ignore[attr-defined]  # noqa: B018

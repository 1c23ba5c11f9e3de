"""The manual page says what the help says, and no text of it is taken for markup."""

from __future__ import annotations

import re

import pytest

from cueloop_client.manual import escaped, manual
from cueloop_client.table import COMMANDS
from cueloop_client.topics import EXIT_CODES, VARIABLES

PAGE = manual("1.2", "2026-02-07")
REQUESTS = {".TH", ".SH", ".SS", ".TP", ".PP", ".B", ".nf", ".fi"}
ESCAPES = r"\\(?:e|-|&|f[BIR]|\((?:aq|dq|ga|ha|ti))"


def shown(text: str) -> str:
    """What roff makes of its escapes."""
    for escape, char in (
        (r"\(aq", "'"),
        (r"\(dq", '"'),
        (r"\(ga", "`"),
        (r"\(ha", "^"),
        (r"\(ti", "~"),
        (r"\-", "-"),
        (r"\&", ""),
    ):
        text = text.replace(escape, char)
    return re.sub(r"\\f[BIR]", "", text).replace("\\e", "\\")


def test_the_title_has_version_and_date() -> None:
    assert PAGE.startswith('.TH CUELOOP 1 "2026\\-02\\-07" "cueloop 1.2" "User Commands"\n.SH NAME\ncueloop \\- ')


@pytest.mark.parametrize("words", sorted(COMMANDS))
def test_each_command_is_there_with_its_options_and_its_example(words: tuple[str, ...]) -> None:
    command = COMMANDS[words]
    (section,) = [part for part in shown(PAGE).split("\n.SS ") if part.startswith(" ".join(words) + "\n")]
    assert f"{command.summary}." in section
    assert command.usage in section
    assert f".B {command.example}\n" in section
    for flag in command.flags:
        assert f"--{flag.name}{f' {flag.value}' if flag.value else ''}\n{flag.help}" in section
    assert all(line in section for line in command.notes.splitlines())


def test_variables_and_exit_codes_are_there() -> None:
    for term, meaning in [*VARIABLES.items(), *EXIT_CODES.items()]:
        assert f".TP\n.B {term}\n{meaning}" in shown(PAGE)


def test_nothing_is_markup_by_accident() -> None:
    for line in PAGE.splitlines():
        assert not line.startswith("'"), line
        assert not line.startswith(".") or line.split()[0] in REQUESTS, line
        assert line.startswith(".TH") or '"' not in line, line
        assert "\\" not in re.sub(ESCAPES, "", line), line


@pytest.mark.parametrize("text", [".SH x", "'x", "a\n.b\n'c", "a-b", 'say "x y"', "\\fBx", "`a` ^ ~/x", ""])
def test_any_text_is_shown_as_it_is(text: str) -> None:
    assert shown(escaped(text)) == text
    assert not any(line.startswith((".", "'")) for line in escaped(text).splitlines())

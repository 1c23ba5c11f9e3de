"""Options of one command."""

from __future__ import annotations

import pytest

from cueloop_client.failures import Usage
from cueloop_client.flags import Flag, parse

FLAGS = (Flag("json", None, ""), Flag("lines", "N", "", short="n"), Flag("kind", "KIND", "", repeats=True))


def test_options_stand_anywhere_in_both_spellings() -> None:
    values = parse(FLAGS, ["a", "--lines=3", "b", "--json", "--kind", "x", "--kind=y", "--", "--json", "-n"])
    assert values.words == ("a", "b", "--json", "-n")
    assert values.has("json")
    assert values.text("lines") == "3"
    assert values.texts("kind") == ("x", "y")
    assert values.number("lines", 50) == 3
    assert not values.has("verbose")
    assert values.text("nothing") is None
    assert values.number("nothing", 50) == 50


def test_a_value_may_begin_with_a_dash_or_be_empty() -> None:
    assert parse(FLAGS, ["-n", "-5"]).text("lines") == "-5"
    assert parse(FLAGS, ["--lines="]).text("lines") == ""


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--jsno"], "Did you mean --json?"),
        (["--frobnicate"], "There is no option --frobnicate."),
        (["-x"], "There is no option -x."),
        (["--json=1"], "--json takes no value"),
        (["-n"], "-n needs a value: -n N"),
        (["-n", "1", "--lines", "2"], "twice"),
    ],
)
def test_mistakes_are_named(argv: list[str], said: str) -> None:
    with pytest.raises(Usage, match=said.replace("?", r"\?")):
        parse(FLAGS, argv)


@pytest.mark.parametrize("text", ["-1", "1.0", "x", "", "1" * 10, "٣"])
def test_a_number_is_plain(text: str) -> None:
    with pytest.raises(Usage, match="--lines"):
        parse(FLAGS, [f"--lines={text}"]).number("lines", 1)


def test_the_same_value_twice_is_no_contradiction() -> None:
    assert parse(FLAGS, ["-n", "1", "--lines=1"]).text("lines") == "1"

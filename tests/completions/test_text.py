"""How candidates are written for each shell, and how a line is read that is not finished."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cueloop_client.complete_shells import LISTING, Candidate, Word, clean, for_bash, split, with_tabs

BREAKS = " \t\n\"'@><=;|&(:"
"""bash's own COMP_WORDBREAKS."""
TAB = "9"


def bash(line: str, *values: str, kind: str = TAB, before: str = "", breaks: str = BREAKS) -> list[str]:
    candidates = [Candidate(value, f"about {value}") for value in values]
    return for_bash(candidates, before, split(line)[-1], breaks, kind, 200)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", [Word("", "")]),
        ("cueloop ", [Word("cueloop", "cueloop"), Word("", "")]),
        ("a  b\tc", [Word("a", "a"), Word("b", "b"), Word("c", "c")]),
        (r"a\ b", [Word(r"a\ b", "a b")]),
        ("a\\", [Word("a\\", "a")]),
        ("'a b' ", [Word("'a b'", "a b"), Word("", "")]),
        ("''", [Word("''", "")]),
        ("'' x", [Word("''", ""), Word("x", "x")]),
        ("x 'a b", [Word("x", "x"), Word("'a b", "a b", "'")]),
        ('"a $b', [Word('"a $b', "a $b", '"')]),
        (r'"a\"b\x\$"', [Word(r'"a\"b\x\$"', r'a"b\x$')]),
        ("--id='R Q'-1", [Word("--id='R Q'-1", "--id=R Q-1")]),
    ],
)
def test_a_line_is_read_as_bash_reads_it(line: str, words: list[Word]) -> None:
    assert split(line) == words


@given(st.lists(st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1), min_size=1))
def test_what_was_quoted_is_read_back(words: list[str]) -> None:
    line = " ".join(map(shlex.quote, words))
    assert [word.value for word in split(line)] == words


@pytest.mark.parametrize(
    ("line", "value", "inserted"),
    [
        ("run --id ", "RQ-1", "RQ-1"),
        ("run --id R", "RQ-1", "RQ-1"),
        ("x ", "$(touch x)", r"\$\(touch\ x\)"),
        (r"x \$", "$(touch x)", r"\$\(touch\ x\)"),
        ("x 'a", "a $(b)", "a $(b)"),
        ("x 'a", "a'b", None),
        ('x "a', "a b", "a b"),
        ('x "a', "a $(b)", None),
        ('x "a', "a`b`", None),
        ('x "a', "a!b", None),
        ("x a:", "a:b", "b"),
        (r"x a\:", "a:b", "a:b"),
        ("x 'a:", "a:b", "a:b"),
        ("x a@", "a@b", "@b"),
        ("x 'a'b", "abc", "bc"),
        ("x ~", "~x", r"\~x"),
        ("x é", "é b", r"é\ b"),
    ],
)
def test_bash_gets_what_replaces_its_part_of_the_word(line: str, value: str, inserted: str | None) -> None:
    assert bash(line, value) == ([] if inserted is None else [inserted])


def test_behind_an_equals_sign() -> None:
    assert bash("x --id=R", "RQ-1", before="--id=") == ["RQ-1"]
    assert bash("x --id=R", "RQ-1", before="--id=", breaks=" \t\n") == ["--id=RQ-1"]
    assert bash("x --id='R", "RQ-1", before="--id=") == ["RQ-1"]


@given(st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1), st.data())
def test_what_bash_inserts_is_one_word_that_means_the_candidate(value: str, data: st.DataObject) -> None:
    """Wherever the typing stopped, and however it was begun."""
    typed = value[: data.draw(st.integers(0, len(value)))]
    begun = "x " + data.draw(st.sampled_from([shlex.quote(typed), "".join(f"\\{char}" for char in typed), f"'{typed}", typed]))
    last = split(begun)[-1]
    if not value.startswith(last.value) or len(split(begun)) != 2:
        return
    for inserted in for_bash([Candidate(value)], "", last, BREAKS, TAB, 80):
        lines = (begun[:start] + inserted + last.quote for start in range(len(begun), 1, -1))
        assert any([word.value for word in split(line)] == ["x", value] for line in lines), f"{begun!r} and {inserted!r}"


def test_bash_shows_titles_where_it_only_lists() -> None:
    assert bash("x ", "a", "bcd", kind=LISTING) == ["a    about a", "bcd  about bcd"]
    assert bash("x ", "a", kind=LISTING) == ["a"]
    assert bash("x ", "a", "bcd") == ["a", "bcd"]
    long = [Candidate("a", "x" * 80), Candidate("b", "y")]
    assert max(map(len, for_bash(long, "", Word("", ""), BREAKS, LISTING, 40))) == 38


@pytest.mark.parametrize("value", ["", "a\nb", "a\tb", "a\x1b[31m", "a\udcff", "\u202ea", "a\x00"])
def test_what_no_line_can_show_is_no_candidate(value: str) -> None:
    assert clean([Candidate(value, "x"), Candidate("b", "y")]) == [Candidate("b", "y")]


def test_descriptions_are_one_line_without_control_characters() -> None:
    told = clean(
        [Candidate("a", "Fix \x1b]0;x\x07 the\n\n\tthing\u202e\udcff "), Candidate("b", "x" * 100), Candidate("a", "again")]
    )
    assert [one.value for one in told] == ["a", "b"]
    assert told[0].about == "Fix ]0;x the thing"
    assert told[1].about == "x" * 79 + "…"


def test_zsh_and_fish_get_a_tab_between_value_and_description() -> None:
    assert with_tabs([Candidate("a b", "c"), Candidate("d")], "--id=") == ["--id=a b\tc", "--id=d\t"]

"""The word on ssh's command line, and the greeting behind a login's noise."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cueloop_client.failures import BadAnswer, Usage
from cueloop_client.remote.word import LONGEST, find_greeting, from_word, greeting, read_greeting, to_word

NONCE = "0123456789abcdef0123456789abcdef"
values = st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.text()), max_size=5)


@given(value=values)
def test_a_word_is_plain_and_comes_back(value: dict[str, object]) -> None:
    word = to_word(value)
    assert re.fullmatch(r"[A-Za-z0-9_-]+", word)
    assert from_word(word) == value


def test_what_is_too_long_for_a_command_line_is_said() -> None:
    with pytest.raises(Usage, match="too long"):
        to_word({"x": "y" * LONGEST})


@pytest.mark.parametrize("word", ["", "x", "!", "e30=x", "bnVsbA", "W10", "é", "-", "eyJ4Ijo", "a" * 100_000])
def test_a_word_of_somebody_else_is_wrong_usage(word: str) -> None:
    with pytest.raises(Usage, match="not for people"):
        from_word(word)


@given(noise=st.binary(max_size=200), value=values, behind=st.binary(max_size=50), cut=st.integers(0, 2000))
def test_a_greeting_is_found_to_its_last_byte(noise: bytes, value: dict[str, object], behind: bytes, cut: int) -> None:
    line = greeting(NONCE, value)
    data = noise + line + behind
    if cut < len(noise) + len(line):
        assert find_greeting(data[:cut], NONCE) is None
    else:
        found = find_greeting(data[:cut], NONCE)
        assert found == (len(noise), len(noise) + len(line))
        assert read_greeting(data[slice(*found)], NONCE) == value


def test_the_greeting_of_another_connection_is_noise() -> None:
    assert find_greeting(greeting("f" * 32, {"x": 1}), NONCE) is None


@pytest.mark.parametrize("said", [b"", b"[]", b"{", b"[" * 100_000])
def test_a_greeting_that_is_no_object_is_a_bad_answer(said: bytes) -> None:
    line = greeting(NONCE, {})[:-3] + said + b"\n"
    with pytest.raises(BadAnswer):
        read_greeting(line, NONCE)

"""Cursors: one spelling each, and a clear sentence for anything else."""

from __future__ import annotations

import copy
import pickle
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from cueloop_protocol.cursor import MAX_SEQ, Cursor, CursorError
from cueloop_protocol.shapes import CursorText

EPOCHS = st.text("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_", min_size=1, max_size=64)
ON_THE_WIRE: TypeAdapter[str] = TypeAdapter(CursorText)


@given(EPOCHS, st.integers(0, MAX_SEQ))
@example("a", 0)
@example("z" * 64, MAX_SEQ)
def test_text_and_back(epoch: str, seq: int) -> None:
    cursor = Cursor(epoch, seq)
    assert Cursor.parse(str(cursor)) == cursor
    assert ON_THE_WIRE.validate_python(str(cursor)) == str(cursor)


@given(st.text(max_size=20) | st.from_regex(r"[a-z]{0,3}:?[0-9+_ ]{0,22}", fullmatch=True))
def test_what_parses_is_written_the_same(text: str) -> None:
    try:
        cursor = Cursor.parse(text)
    except CursorError:
        return
    assert str(cursor) == text
    assert ON_THE_WIRE.validate_python(text) == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "one colon"),
        ("abc", "one colon"),
        (":1", "epoch of a cursor"),
        ("a b:1", "epoch of a cursor"),
        ("é:1", "epoch of a cursor"),
        ("x" * 65 + ":1", "epoch of a cursor"),
        ("a:", "plain decimal"),
        ("a:-1", "plain decimal"),
        ("a:+1", "plain decimal"),
        ("a:01", "plain decimal"),
        ("a:00", "plain decimal"),
        ("a: 1", "plain decimal"),
        ("a:1 ", "plain decimal"),
        ("a:1:2", "plain decimal"),
        ("a:1_0", "plain decimal"),
        ("a:٣", "plain decimal"),
        ("a:²", "plain decimal"),
        ("a:" + "9" * 20, "plain decimal"),
        ("a:" + "9" * 10_000, "plain decimal"),
        (f"a:{MAX_SEQ + 1}", "integer from 0"),
    ],
)
def test_what_is_no_cursor(text: str, reason: str) -> None:
    with pytest.raises(CursorError, match=reason):
        Cursor.parse(text)


@pytest.mark.parametrize("text", ["", "abc", ":1", "a b:1", "a:", "a:-1", "a:01", "a:1 ", "a:1:2", "a:1\n", "a:٣"])
def test_the_wire_refuses_the_same(text: str) -> None:
    with pytest.raises(ValidationError):
        ON_THE_WIRE.validate_python(text)


@pytest.mark.parametrize("seq", [-1, MAX_SEQ + 1, True, 1.0])
def test_numbers_that_are_none(seq: int) -> None:
    with pytest.raises(CursorError, match="integer from 0"):
        Cursor("a", seq)


def test_a_cursor_is_a_value() -> None:
    cursor = Cursor("a", 1)
    assert {cursor, Cursor("a", 1), Cursor("a", 2), Cursor("b", 1)} == {cursor, Cursor("a", 2), Cursor("b", 1)}
    assert cursor != "a:1"
    assert repr(cursor) == "Cursor('a', 1)"
    assert pickle.loads(pickle.dumps(cursor)) == copy.deepcopy(cursor) == cursor
    with pytest.raises(AttributeError, match=re.escape("does not change: seq")):
        cursor.seq = 2
    with pytest.raises(AttributeError, match=re.escape("does not change: epoch")):
        del cursor.epoch

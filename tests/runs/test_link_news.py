"""What a shim says, as values: every word of the real one, and nonsense."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cueloop_daemon.runs.shim import news
from cueloop_daemon.shim.wire import WireError, encode, owner_bytes, owner_text

EXIT = {"pid": 5, "start": "6", "code": None, "signal": 9, "cause": "wall", "out": 1, "err": 2, "dropped": 3, "left": ["7 sh"]}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (encode("ok", to="limits", n=3), news.Plain(word="ok", to="limits", n=3)),
        (encode("ok", to="ack", upto=3), news.Plain(word="ok", to="ack")),
        (encode("cancelled"), news.Plain(word="cancelled")),
        (encode("grown", n=1, out=2, err=0), news.Growth(n=1, out=2, err=0)),
        (encode("trouble", what="output", errno=28), news.Bad(what="output", errno=28)),
        (encode("refused", why="fenced"), news.Refused(why="fenced")),
        (encode("started", to="start", n=1, pid=5, start="6"), news.Running(to="start", n=1, pid=5, start="6")),
        (encode("failed", to="start", n=1, stage="exec", errno=2), news.NoStart(to="start", n=1, stage="exec", errno=2)),
        (encode("exited", n=1, **EXIT), news.End(n=1, **{**EXIT, "left": ("7 sh",)})),
        (encode("error", to="lock", n=1, errno=28), news.Failure(to="lock", n=1, errno=28)),
        (
            encode("shim", protocol=1, orders={"1": "exited"}, child=None, lock={"dev": 1, "ino": 2}, cancelled=False),
            news.State(protocol=1, orders={"1": "exited"}, child=None, cancelled=False),
        ),
        (
            encode("held", to="lock", n=1, dev=1, ino=2, owner=None, names=["owner_task_1_1"]),
            news.Held(to="lock", n=1, dev=1, ino=2, owner=None, names=("owner_task_1_1",)),
        ),
    ],
)
def test_every_word_is_its_value(line: bytes, message: news.Message) -> None:
    assert news.parse(line) == message


@given(st.binary(max_size=60))
def test_an_owner_file_of_any_bytes_arrives_as_it_is(owner: bytes) -> None:
    made = news.parse(encode("made", to="lock", n=1, dev=1, ino=2, owner=owner_text(owner)))
    assert isinstance(made, news.Made)
    assert owner_bytes(made.owner) == owner


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["n", "to", "out", "err", "pid"]), inner, max_size=3)
    ),
    max_leaves=6,
)
WORDS = st.sampled_from(["shim", "state", "made", "held", "exited", "grown", "trouble", "started", "refused", "ok", "weather"])


@given(st.binary(max_size=60) | st.dictionaries(WORDS, VALUES, max_size=2).map(lambda raw: json.dumps(raw).encode()))
def test_anything_else_is_an_error_of_the_wire(line: bytes) -> None:
    try:
        message = news.parse(line)
    except WireError:
        return
    assert isinstance(message, news.Message)
    assert message.n is None or 0 <= message.n <= 2**53


@pytest.mark.parametrize("owner", [5, None, ["pid: 5"]])
def test_an_owner_file_is_text(owner: object) -> None:
    with pytest.raises(WireError):
        news.parse(encode("made", to="lock", n=1, dev=1, ino=2, owner=owner))


@pytest.mark.parametrize("n", [-1, 2**53 + 1, 1.0, "1", True])
def test_a_number_is_a_number(n: object) -> None:
    with pytest.raises(WireError):
        news.parse(encode("grown", n=n, out=0, err=0))

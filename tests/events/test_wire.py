"""Notifications that are joined from pieces are the JSON that a straightforward encoder would make."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cueloop_daemon.events import wire
from cueloop_daemon.events.model import Method, Row
from cueloop_protocol.cursor import Cursor

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)
METHODS: tuple[Method, ...] = ("event", "run.finished", "question", "question.resolved")


@given(
    params=st.dictionaries(st.text().filter(lambda key: key not in ("subscription", "cursor")), JSON, max_size=4),
    indent=st.sampled_from([None, 0, 2]),
    method=st.sampled_from(METHODS),
    seq=st.integers(1, 2**53),
    subscription=st.text(),
)
def test_a_joined_notification_is_the_whole_json_on_one_line(
    params: dict[str, object], indent: int | None, method: Method, seq: int, subscription: str
) -> None:
    line = wire.one_line(json.dumps(params, indent=indent).encode())
    body = wire.head(subscription, method) + wire.tail("E-1", Row(seq, method, None, None, None, line))

    assert b"\n" not in body
    assert json.loads(body) == {
        "jsonrpc": "2.0",
        "method": method,
        "params": {"subscription": subscription, "cursor": f"E-1:{seq}", **params},
    }


def test_subscription_and_cursor_come_first() -> None:
    body = wire.head("s1", "event") + wire.tail("e", Row(7, "event", None, None, None, b'{"origin":"run"}'))
    assert body == b'{"jsonrpc":"2.0","method":"event","params":{"subscription":"s1","cursor":"e:7","origin":"run"}}'


@pytest.mark.parametrize("params", [b"", b"{", b"}", b"[]", b"null", b'"{}"', b" \n "])
def test_params_that_are_no_object_are_refused(params: bytes) -> None:
    with pytest.raises(ValueError, match="one JSON object"):
        wire.one_line(params)


def test_a_line_break_inside_a_text_is_escaped_in_json_and_so_survives() -> None:
    assert json.loads(wire.one_line(b'{\n "text": "a\\nb"\n}\n')) == {"text": "a\nb"}


def test_a_gap_says_from_where_to_where_and_goes_on_at_its_end() -> None:
    body = wire.gap("s3", Cursor("old", 5), Cursor("new", 9), b'{\n  "revision": 4\n}')
    assert b"\n" not in body
    assert json.loads(body) == {
        "jsonrpc": "2.0",
        "method": "gap",
        "params": {"subscription": "s3", "cursor": "new:9", "from": "old:5", "to": "new:9", "snapshot": {"revision": 4}},
    }

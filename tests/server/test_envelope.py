"""JSON-RPC on the outside of a call."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from cueloop_daemon.server.envelope import (
    ABSENT,
    SHORT,
    Invalid,
    Message,
    answer,
    joined,
    message,
    messages,
    notification,
    read,
    refusal,
)
from cueloop_protocol import codes
from cueloop_protocol.codes import RpcError

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)


def one(text: str) -> Message | Invalid:
    found = messages(read(text.encode()), 10, len(text))
    assert not isinstance(found, list)
    return found


@given(JSON, st.sampled_from([None, 1]))
def test_reads_what_the_standard_library_writes(value: object, indent: int | None) -> None:
    assert read(json.dumps(value, indent=indent).encode()) == value
    assert read(json.dumps(value, indent=indent, ensure_ascii=False).encode()) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_a_parse_error(data: bytes) -> None:
    try:
        value = read(data)
    except RpcError as caught:
        error = caught
    else:
        assert messages(value, 5, len(data))
        return
    assert error.code == codes.PARSE_ERROR


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"nonsense",
        b"{",
        b'{"a":}',
        b"\xff\xfe",
        b"\x16\x03\x01\x02\x00",
        b"\x00",
        b'"\xc0\xaf"',
        b'"\xe2\x82"',
        b"[NaN]",
        b"1 2",
    ],
)
def test_d19_what_is_no_json_is_a_parse_error(data: bytes) -> None:
    with pytest.raises(RpcError) as caught:
        read(data)
    assert caught.value.code == codes.PARSE_ERROR


def test_a_half_surrogate_is_a_parse_error() -> None:
    with pytest.raises(RpcError):
        read(b'"\\ud800"')


@pytest.mark.parametrize("depth", [1_000, 20_000, 100_000])
@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":'])
def test_b08_deep_nesting_is_a_parse_error(depth: int, opening: str) -> None:
    with pytest.raises(RpcError) as caught:
        read((opening * depth).encode())
    assert caught.value.code == codes.PARSE_ERROR
    assert len(caught.value.document["detail"]) < 300


def test_b08_the_depth_that_is_read_is_also_looked_at_twice() -> None:
    depth = 150
    text = "[" * depth + '{"a":"\\n","a":2}' + "]" * depth
    found = one('{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":' + text + "}}")
    assert isinstance(found, Invalid)


@pytest.mark.parametrize("found", [0, "", 1.5, None, 1, "a", -1, 2**70, 'ä\n"', 1e300])
def test_ids_come_back_as_they_came(found: Any) -> None:
    request = message({**PING, "id": found})
    assert isinstance(request, Message)
    assert request.id == found
    assert type(request.id) is type(found)
    back = json.loads(answer(request.id, b"{}"))["id"]
    assert back == found
    assert type(back) is type(found)
    assert json.loads(refusal(request.id, codes.cancelled()))["id"] == found


@pytest.mark.parametrize("found", [True, False, [], {}, float("inf")])
def test_what_is_no_id_is_answered_with_null(found: object) -> None:
    request = message({**PING, "id": found})
    assert isinstance(request, Invalid)
    assert request.id is None


def test_a_request_without_an_id_is_a_notification() -> None:
    request = message({"jsonrpc": "2.0", "method": "ping"})
    assert isinstance(request, Message)
    assert request.id is ABSENT


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"jsonrpc": "1.0"}, "jsonrpc"),
        ({"jsonrpc": 2.0}, "jsonrpc"),
        ({"method": 1}, "method"),
        ({"method": None}, "method"),
        ({"params": None}, "params"),
        ({"params": "x"}, "params"),
        ({"params": 5}, "params"),
    ],
)
def test_an_invalid_request_keeps_its_id_and_names_the_member(change: dict[str, object], word: str) -> None:
    request = message({**PING, "id": "mine", **change})
    assert isinstance(request, Invalid)
    assert request.id == "mine"
    assert word in request.error.document["detail"]


@pytest.mark.parametrize("missing", ["jsonrpc", "method"])
def test_a_missing_member_is_an_invalid_request(missing: str) -> None:
    request = message({key: value for key, value in PING.items() if key != missing})
    assert isinstance(request, Invalid)
    assert request.error.code == codes.INVALID_REQUEST


@pytest.mark.parametrize("value", [1, "x", None, True, 1.5])
def test_what_is_no_object_is_an_invalid_request(value: object) -> None:
    request = message(value)
    assert isinstance(request, Invalid)
    assert (request.id, request.error.code) == (None, codes.INVALID_REQUEST)


@pytest.mark.parametrize("member", ["result", "error"])
def test_an_answer_to_nothing_does_not_come_back_with_its_id(member: str) -> None:
    request = message({"jsonrpc": "2.0", "id": 1, member: {}})
    assert isinstance(request, Invalid)
    assert request.id is None


def test_extra_members_of_a_request_are_no_error() -> None:
    assert isinstance(message({**PING, "meta": 1}), Message)


@pytest.mark.parametrize(
    ("text", "key", "found"),
    [
        ('{"jsonrpc":"2.0","id":1,"method":"ping","method":"stop"}', "method", 1),
        ('{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', "id", None),
        ('{"jsonrpc":"2.0","id":1,"i\\u0064":2,"method":"ping"}', "id", None),
        ('{"jsonrpc":"2.0","id":1,"m\\u0065thod":"a","method":"ping"}', "method", 1),
        ('{"jsonrpc" : "2.0","id" : 1,"method" : "a"\n,"method"\t: "ping"}', "method", 1),
        ('{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":1,"a":2}}', "a", 7),
        ('{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":[{"b":1},{"b":1,"b":2}]}}', "b", 7),
        ('{"jsonrpc":"2.0","id":7,"method":"ping","params":{"id":1,"id":2}}', "id", 7),
        ('{"jsonrpc":"2.0","method":"ping","method":"ping"}', "method", None),
    ],
)
def test_b04_a_key_that_is_there_twice_makes_a_request_invalid(text: str, key: str, found: object) -> None:
    request = one(text)
    assert isinstance(request, Invalid)
    assert request.error.code == codes.INVALID_REQUEST
    assert repr(key) in request.error.document["detail"]
    assert request.id == found


@pytest.mark.parametrize(
    "text",
    [
        '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"id":1,"method":2}}',
        '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":{"x":1},"b":{"x":1}}}',
        '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\\"a\\":1,\\"a\\":2"}}',
        '{"jsonrpc":"2.0","id":1,"method":"method","params":{"a":"id","b":"id"}}',
        '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":":","b":":"}}',
    ],
)
def test_b04_the_same_key_in_different_objects_or_in_text_is_no_double(text: str) -> None:
    request = one(text)
    assert isinstance(request, Message)
    assert request.raw == json.loads(text)


def test_b04_in_a_batch_only_the_item_is_invalid() -> None:
    good = json.dumps(PING)
    found = messages(read(f'[{good},{{"jsonrpc":"2.0","id":2,"method":"a","method":"b"}},{good},3]'.encode()), 10, 300)
    assert isinstance(found, list)
    assert [type(item) for item in found] == [Message, Invalid, Message, Invalid]


@given(st.dictionaries(st.text(), JSON, min_size=1, max_size=4), st.data())
def test_b04_any_key_doubled_anywhere_is_found(params: dict[str, Any], data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(params)))
    body = ",".join(f"{json.dumps(name)}:{json.dumps(value)}" for name, value in [*params.items(), (key, 1)])
    assert isinstance(one(f'{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{{body}}}}}'), Invalid)


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_b04_nothing_else_is(params: dict[str, Any]) -> None:
    request = one(json.dumps({**PING, "params": params}, ensure_ascii=False))
    assert isinstance(request, Message)
    assert request.params == params


def test_b04_is_found_in_a_large_frame_too() -> None:
    padding = "x" * 100_000
    assert isinstance(one(f'{{"jsonrpc":"2.0","id":1,"method":"a","params":{{"p":"{padding}","p":1}}}}'), Invalid)
    assert isinstance(one(f'{{"jsonrpc":"2.0","id":1,"method":"a","params":{{"p":"{padding}"}}}}'), Message)


def test_d21_a_batch_of_none_or_too_many_is_one_error() -> None:
    for value in ([], [PING] * 4):
        found = messages(value, 3, 50)
        assert isinstance(found, Invalid)
        assert (found.id, found.error.code) == (None, codes.INVALID_REQUEST)
    assert isinstance(messages([PING] * 3, 3, 150), list)


class Half(BaseModel):
    a: int


def test_results_of_every_kind_become_members() -> None:
    assert json.loads(answer(1, b'{"a": [1,\n2]}')) == {"jsonrpc": "2.0", "id": 1, "result": {"a": [1, 2]}}
    assert json.loads(answer("x", {"a": 1}))["result"] == {"a": 1}
    assert json.loads(answer(None, Half(a=1)))["result"] == {"a": 1}
    with pytest.raises(ValueError, match="serialize"):
        answer(1, {"a": object()})


def test_the_other_texts() -> None:
    assert json.loads(notification("n", Half(a=1))) == {"jsonrpc": "2.0", "method": "n", "params": {"a": 1}}
    assert json.loads(joined([b"1", b"2"])) == [1, 2]
    assert json.loads(refusal(1, codes.conflict("x")))["error"]["data"]["name"] == "conflict"


@pytest.mark.parametrize(("size", "is_short"), [(SHORT, True), (SHORT + 1, False)])
def test_what_came_in_a_short_frame_is_marked(size: int, is_short: bool) -> None:
    alone, (first, _) = messages(PING, 2, size), messages([PING, PING], 2, size)
    assert (alone.is_short, first.is_short) == (is_short, is_short)


@pytest.mark.parametrize(
    ("text", "is_unique"),
    [
        ('{"a":1,"b":{"c":[{"d":2},3]}}', True),
        ('{"a":1,"b":{"a":[{"a":2}]}}', True),
        ('{"a":"x:y","b":1}', True),
        ('{"a":1,"b":{"c":[{"d":2,"d":3}]}}', False),
        ('{"a":{"b":1,"c":2},"a":3}', False),
        ('{"a":"x:y","b":{"c":1,"c":2}}', False),
        ('{"a":1,"\\u0061":2}', False),
    ],
)
def test_b04_keys_are_counted_by_their_colons(text: str, is_unique: bool) -> None:
    found = message(read(text.encode()))
    assert isinstance(found, Invalid)
    assert ("twice" in found.error.document["detail"]) is not is_unique

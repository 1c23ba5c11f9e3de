"""The reader of every shared file: what it takes, where it says that something is wrong, and what it never does."""

from __future__ import annotations

import json
from contextlib import suppress
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cueloop_daemon.store.jsonc import JSON5_LIMIT, JsoncError, read_json, read_strict_json
from cueloop_daemon.store.jsonc_text import Unclosed, duplicate_key, find_token, place, strip


def error(data: bytes, *, json5: bool = True) -> JsoncError:
    with pytest.raises(JsoncError) as caught:
        read_json(data, json5=json5)
    return caught.value


ACCEPTED: list[tuple[bytes, object]] = [
    (b"{}", {}),
    (b' {"a": [1, 2.5, true, null, "x"]}\n', {"a": [1, 2.5, True, None, "x"]}),
    (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
    (b'\xef\xbb\xbf{\r\n"a": 1\r\n}\r\n', {"a": 1}),
    (b'// c\n{"a": /* why */ 1,} // end', {"a": 1}),
    (b'{"a": [1, 2, /* x */ ], /* y */ }', {"a": [1, 2]}),
    (b'{"a": "// no, /* no */, ]"}', {"a": "// no, /* no */, ]"}),
    (b'{"a": "\\"//", "b": "\\\\"}// ,', {"a": '"//', "b": "\\"}),
    (b"/**//***/[/* ** / */]", []),
    ('{"é": "\\u00e9 // \U0001f600"} // é'.encode(), {"é": "é // \U0001f600"}),
    (b'{"a": ": x :", "b" : 1, "c"\n: {"a": 2}}', {"a": ": x :", "b": 1, "c": {"a": 2}}),
    (b'[{"k": 1}, {"k": 1}]', [{"k": 1}, {"k": 1}]),
    (str(2**70).encode(), 2**70),
    (b"[" * 200 + b"]" * 200, None),
]


@pytest.mark.parametrize(("data", "value"), ACCEPTED)
@pytest.mark.parametrize("json5", [True, False])
def test_json_and_jsonc_are_read_with_and_without_json5(data: bytes, value: object, json5: bool) -> None:
    found = read_json(data, json5=json5)
    if value is not None:
        assert found == value


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"{a: 'm', $b: \"x\"}", {"a": "m", "$b": "x"}),
        (b"{a: 0x10, b: +1, c: .5, d: 5.,}", {"a": 16, "b": 1, "c": 0.5, "d": 5.0}),
        (b"{'it\"s // x': 1, 'b': '/*'}", {'it"s // x': 1, "b": "/*"}),
        ("{\u00a0a: 1}".encode(), {"a": 1}),
        (b"{a: 1, /* c */} // d", {"a": 1}),
    ],
)
def test_json5_is_read_where_it_may_be(data: bytes, value: object) -> None:
    assert read_json(data) == value
    with pytest.raises(JsoncError):
        read_json(data, json5=False)


def test_json5_is_for_small_files() -> None:
    padded = b"{a: 1}" + b" " * (JSON5_LIMIT - 6)
    assert read_json(padded) == {"a": 1}
    assert error(padded + b" ").reason == "key must be a string"


BAD: list[tuple[bytes, str, int, int]] = [
    (b"", "the file is empty", 1, 1),
    (b"   \n", "the file is empty", 1, 1),
    (b"\xef\xbb\xbf", "the file is empty", 1, 1),
    (b"// x\n", "the file has comments and no value", 1, 1),
    (b"\0" * 642, "the file holds nothing but NUL bytes", 1, 1),
    (b"{\0}", "key must be a string", 1, 2),
    (b"\xff\xfe{\0}\0", "the file is UTF-16; it must be UTF-8", 1, 1),
    (b"\xfe\xff\0{\0}", "the file is UTF-16; it must be UTF-8", 1, 1),
    (b'{\n "a": "\xb2"}', "byte 0xb2 is not UTF-8", 2, 8),
    (b'"\xc0\xaf"', "byte 0xc0 is not UTF-8", 1, 2),
    (b'"\xe2\x82', "byte 0xe2 is not UTF-8", 1, 2),
    (b"{", "the file ends in the middle of an object", 1, 2),
    (b"[1\n", "the file ends in the middle of a list", 2, 1),
    (b'{"a":', "the file ends where a value should be", 1, 6),
    (b'{"a": "x\n', "the string is not closed", 1, 7),
    (b'{"a": 1}\n/* x', "the comment is not closed", 2, 1),
    (b"{}\n{}", "something follows the end of the document", 2, 1),
    (b"hello", "expected value", 1, 1),
    (b"# c\n{}", "expected value", 1, 1),
    (b'\n\n  {"a" 1}', "expected `:`", 3, 8),
    (b'{"a": 1\r"b": 2}', "expected `,` or `}`", 2, 1),
    ('{"é": 1 "b": 2}'.encode(), "expected `,` or `}`", 1, 9),
    (b"[,]", "expected value", 1, 2),
    (b"[1,,2]", "expected value", 1, 4),
    (b"[1,,]", "expected value", 1, 4),
    (b"[1 /* , */ ,, /* x */ ]", "expected value", 1, 13),
    (b"01", "invalid number", 1, 2),
    (b'["a\nb"]', "a control character in a string must be escaped", 1, 4),
    (b"[" * 202 + b"]" * 202, "nested too deeply (more than 200 levels)", 1, 202),
    (b"[" * 100_000, "nested too deeply (more than 200 levels)", 1, 202),
    (b'{"a":' * 100_000, "nested too deeply (more than 200 levels)", 1, 1006),
    (b'{"a": 1e999}', "a number must be finite", 1, 7),
    (b'["1e999",\n // 1e999\n -1e999]', "a number must be finite", 3, 2),
]


@pytest.mark.parametrize(("data", "reason", "line", "column"), BAD)
def test_what_is_wrong_is_said_with_its_place(data: bytes, reason: str, line: int, column: int) -> None:
    found = error(data, json5=False)
    assert (found.reason, found.line, found.column, found.key) == (reason, line, column, None)
    assert str(found) == f"{reason} (line {line}, column {column})"
    assert isinstance(found, ValueError)


@pytest.mark.parametrize(("data", "reason", "line", "column"), [case for case in BAD if len(case[0]) < JSON5_LIMIT])
def test_json5_hides_none_of_it(data: bytes, reason: str, line: int, column: int) -> None:
    assert error(data).reason == reason or (error(data).line, error(data).column) > (line, column)


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"+Infinity", b"1e999"])
def test_no_number_is_infinite_in_json5_either(number: bytes) -> None:
    found = error(b"{a: 1,\n b: " + number + b"}")
    assert (found.reason, found.line, found.column) == ("a number must be finite", 2, 5)


def test_half_a_surrogate_pair_is_no_text_in_json5_either() -> None:
    assert error(b"{a: '\\ud800'}").reason == "half of a surrogate pair is not a character"
    assert error(b'{"a": "\\ud800"}', json5=False).line == 1


def test_the_reader_that_got_further_speaks() -> None:
    found = error(b"{a: 1,\n b: 2,\n c 3}")
    assert (found.reason, found.line, found.column) == ('unexpected "3"', 3, 4)
    assert error(b"{a: 1,\n b: ").reason == "key must be a string"
    assert error(b'{"a": 1, "b": "x\ny"').reason == "a control character in a string must be escaped"


def test_b02_bom_utf16_and_a_bom_alone() -> None:
    text = '{"a": 1}'
    assert read_json(b"\xef\xbb\xbf" + text.encode()) == {"a": 1}
    assert "UTF-16" in error(text.encode("utf-16")).reason
    assert error(b"\xef\xbb\xbf").reason == "the file is empty"
    assert error(b"\xef\xbb\xbf\xef\xbb\xbf{}", json5=False).line == 1


DUPLICATES: list[tuple[bytes, str, int, int]] = [
    (b'{"task_id": 1,\n "task_id": 2}', "task_id", 2, 2),
    (b'{"task_id": 1, "task\\u005fid": 2}', "task_id", 1, 16),
    (b'{"a": [{"x": {"k": 1, "k": 1}}]}', "k", 1, 23),
    (b'{"k" : 1,"k"\n:2}', "k", 1, 10),
    (b'{"a": ": :", "k": 1, "k": 2}', "k", 1, 22),
    (b'{"a": 1, // "b": 1\n "a": 2,}', "a", 2, 2),
    (b'{"": 1, "": 2}', "", 1, 9),
    ('{"é": 1,\r"é": 2}'.encode(), "é", 2, 1),
]


@pytest.mark.parametrize(("data", "key", "line", "column"), DUPLICATES)
@pytest.mark.parametrize("json5", [True, False])
def test_b04_duplicate_keys_are_named(data: bytes, key: str, line: int, column: int, json5: bool) -> None:
    found = error(data, json5=json5)
    assert (found.key, found.line, found.column) == (key, line, column)
    assert found.reason == f"duplicate key {json.dumps(key, ensure_ascii=False)}"


@pytest.mark.parametrize(
    ("data", "key", "column"),
    [(b"{a: 1, 'a': 2}", "a", 8), (b"{'\\x61': 1, a: 2}", "a", 13), (b"{\\u0061: 1, a: 2}", "a", 1)],
)
def test_b04_duplicate_keys_are_named_in_json5(data: bytes, key: str, column: int) -> None:
    assert (error(data).key, error(data).column) == (key, column)


def test_b06_a_comment_ends_at_cr() -> None:
    assert read_json(b'{"a": 1, // x\r"b": 2}') == {"a": 1, "b": 2}
    assert read_json(b'// x\r{"a":\r\n1}\r') == {"a": 1}


@pytest.mark.parametrize("opening", [b"[", b'{"x":', b"[{x:", b"{x:["])
def test_b08_deep_nesting_is_an_error_and_nothing_else(opening: bytes) -> None:
    for depth in (60, 995, 1000, 3000):
        data = opening * depth
        assert "nested too deeply" in error(data).reason or "ends" in error(data).reason or "key" in error(data).reason
    assert "nested too deeply to be read as JSON5" in error(b"{a:" * 150 + b"1" + b"}" * 150).reason


def test_b10_invalid_utf8_is_an_error_with_its_byte() -> None:
    assert error(b'{"model": "x\xb2"}').reason == "byte 0xb2 is not UTF-8"


def test_strict_json_has_no_comments_commas_or_bom() -> None:
    assert read_strict_json(b'{"a": [1]}') == {"a": [1]}
    for data in (b"// c\n{}", b"[1,]", b"\xef\xbb\xbf{}", b"{a: 1}", b"[NaN]", b"[1e999]", b"", b"\xff", b'{"a": 1, "a": 2}'):
        with pytest.raises(JsoncError):
            read_strict_json(data)


def test_strip_keeps_length_and_line_ends() -> None:
    text = b'// a\r\n{"k": /* x\n y */ [1, 2,\r],}'
    assert strip(text) == b'    \r\n{"k":     \n      [1, 2 \r] }'
    assert strip(b"{}") == b"{}"
    with pytest.raises(Unclosed):
        strip(b'{"a')


HOSTILE = {
    "commas": b",",
    "comments": b"/**/",
    "commas and comments": b",/* */",
    "quotes": b'"',
    "slashes": b"/ ",
    "values": b"1, ",
    "gaps": b", " + b" " * 50,
}


@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE)
def test_strip_takes_time_in_proportion_to_the_size(unit: bytes) -> None:
    def cost(size: int) -> float:
        text, spent = unit * (size // len(unit)), []
        for _ in range(3):
            start = process_time()
            with suppress(Unclosed):
                strip(text)
            spent.append(process_time() - start)
        return min(spent)

    assert cost(800_000) < 10 * cost(200_000) + 0.01  # in square proportion it would be 16 times


def test_place_counts_characters_and_every_kind_of_line_end() -> None:
    assert place("é\r\nx\ré\n".encode(), 8) == (3, 2)
    assert place(b"", 0) == (1, 1)


def test_tokens_are_found_outside_strings_and_comments() -> None:
    assert find_token("{'x': \"x\", /* x */ a: x}", lambda token: token == "x") == 22
    assert find_token("{}", lambda token: token == "x") is None
    assert duplicate_key("{'a': {a: 1}, b: [{a: 1}, {a: 2}]}") is None


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)
gaps = st.sampled_from(["", " ", "\n", "\r", "\t", "// c , ] }\n", '// "\r', "/* , */", '/* // * " */', "/**/"])


def written(value: Any, draw: Any) -> str:
    """The value as JSONC, with gaps and trailing commas wherever they may be."""
    if isinstance(value, dict):
        entries = [f"{json.dumps(k)}{draw(gaps)}:{draw(gaps)}{written(v, draw)}" for k, v in value.items()]
        return "{" + draw(gaps) + listed(entries, draw) + "}"
    if isinstance(value, list):
        return "[" + draw(gaps) + listed([written(entry, draw) for entry in value], draw) + "]"
    return json.dumps(value, ensure_ascii=draw(st.booleans()))


def listed(entries: list[str], draw: Any) -> str:
    text = (draw(gaps) + "," + draw(gaps)).join(entries)
    return text + draw(gaps) + ("," + draw(gaps) if entries and draw(st.booleans()) else "")


@given(st.data(), json_values)
def test_a_value_survives_any_comments_and_commas(data: st.DataObject, value: Any) -> None:
    text = data.draw(gaps) + written(value, data.draw) + data.draw(gaps)
    for json5 in (True, False):
        assert read_json(text.encode(), json5=json5) == value
    assert len(strip(text.encode())) == len(text.encode())


@given(st.binary(max_size=60) | st.text(st.sampled_from("{}[]\",:/*\\ab1 \n\r'-.eu0d8"), max_size=60).map(str.encode))
def test_any_bytes_are_a_value_or_an_error_with_a_place(data: bytes) -> None:
    for json5 in (True, False):
        try:
            value = read_json(data, json5=json5)
        except JsoncError as exc:
            place_is_inside = exc.line >= 1 and exc.column >= 1 and exc.line <= data.count(b"\n") + data.count(b"\r") + 1
            assert place_is_inside, exc  # noqa: PT017 - the error is the result here
        else:
            json.dumps(value, allow_nan=False).encode()


def test_a_hexadecimal_number_of_thousands_of_digits_is_a_number() -> None:
    """Python refuses to print such a number as decimal digits, which once came out as an exception of its own."""
    assert read_json(b"{a: 0x" + b"f" * 8000 + b"}") == {"a": 16**8000 - 1}

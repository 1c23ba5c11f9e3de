"""Hostile output: any cut gives the same, nothing is fatal, memory is bounded. B08, E07."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cueloop_daemon.runners import Failed, Succeeded
from cueloop_daemon.runners.lines import KEPT_HEAD, KEPT_TAIL, LONGEST, Line, LineSplitter
from cueloop_daemon.runners.members import MemberScanner
from cueloop_daemon.runners.parse import Doc, event_of
from cueloop_daemon.runners.text import ENDS, KEPT, PIECE, Ends, Growing, clean, shorten
from runners.streams import GOOD, UUID, built_in, cut, lines, read, says

NAMES = [*GOOD, "kimi 1.51.0"]
ODD = st.sampled_from(
    [
        b"\n",
        b"\r\n",
        b"\0",
        b"\xff\xfe",
        b"\xc3",
        b"\xef\xbb\xbf",
        b"plain\n",
        b"  {\n",
        b'{"a":1}\n',
        b'{"type":"init"}\n',
        b"}\n",
    ]
)
NOISE = st.lists(ODD | st.binary(max_size=30), max_size=6).map(b"".join)
CUTS = st.lists(st.integers(0, 10_000), max_size=8)


@given(name=st.sampled_from(NAMES), before=NOISE, within=NOISE, err=NOISE, cuts=CUTS, code=st.sampled_from([0, 1, 42]))
def test_any_cut_gives_the_same_text_and_verdict(
    name: str, before: bytes, within: bytes, err: bytes, cuts: list[int], code: int
) -> None:
    id_, _, version = name.partition(" ")
    good = GOOD[id_][0].splitlines(keepends=True)
    out = before + b"".join(good[:-1]) + within + good[-1]
    at_once, in_parts = (read(built_in(id_, version), out, err, code, cuts=places) for places in ([], cuts))
    assert (at_once.shown, at_once.verdict) == (in_parts.shown, in_parts.verdict)
    assert at_once.reader.reported_id == in_parts.reader.reported_id
    assert "\0" not in at_once.shown


@pytest.mark.parametrize("id_", GOOD)
def test_one_byte_at_a_time(id_: str) -> None:
    out = GOOD[id_][0].replace(b"worked", "wörk\\u0000ed".encode())
    told = read(built_in(id_), out, b"a\xc3\xa4\r\n\xff", cuts=range(len(out)))
    whole = read(built_in(id_), out, b"a\xc3\xa4\r\n\xff")
    assert (told.shown, told.verdict) == (whole.shown, whole.verdict)
    assert isinstance(told.verdict, Succeeded)
    assert told.verdict.text == ("worked" if id_ == "gemini" else "wörk�ed")
    assert whole.shown.endswith("aä\n�")


@given(st.binary(max_size=300), CUTS)
def test_lines_are_what_split_gives(data: bytes, cuts: list[int]) -> None:
    splitter = LineSplitter()
    found = [line for part in cut(data, cuts) for line in splitter.feed(part)]
    rest = splitter.end()
    wanted = data.split(b"\n")
    assert [line.head for line in found] == [line.removesuffix(b"\r") for line in wanted[:-1]]
    assert (rest.head if rest else b"") == wanted[-1].removesuffix(b"\r")
    assert splitter.end() is None


@pytest.mark.parametrize("size", [LONGEST - 1, LONGEST, LONGEST + 1, LONGEST + KEPT_HEAD, 3 * LONGEST])
@pytest.mark.parametrize("step", [1000, 65_536, 10**9])
def test_a_line_over_the_limit_keeps_both_ends(size: int, step: int) -> None:
    data = b"a" * (size - 5) + b"bcdef\nnext\n"
    splitter = LineSplitter()
    found = [line for at in range(0, len(data), step) for line in splitter.feed(data[at : at + step])]
    assert [line.is_ended for line in found] == [True, True]
    assert found[1].head == b"next"
    if size <= LONGEST:
        assert found[0].head == data[:size]
    else:
        assert found[0].head == b"a" * KEPT_HEAD
        assert found[0].tail == data[size - KEPT_TAIL : size]
        assert found[0].left_out == size - KEPT_HEAD - KEPT_TAIL


@pytest.mark.parametrize("is_json", [True, False])
def test_e07_a_line_of_64_mib_takes_no_memory_and_what_follows_is_read(is_json: bool) -> None:
    reader = built_in("claude").reader()
    start, end = (b'{"type":"user","message":"', b'"}\n') if is_json else (b"", b"\n")
    chunk = b"x" * (256 * 1024)
    tracemalloc.start()
    reader.feed(start)
    shown = sum(len(piece.text) for _ in range(256) for piece in reader.feed(chunk))
    told = reader.feed(end)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert shown == 0
    assert peak < 8 * 1024 * 1024
    text = "".join(piece.text for piece in told)
    assert "[user: a line of 67108892 bytes was left out]" in text if is_json else "bytes left out" in text
    assert len(text) < 2 * KEPT_HEAD
    reader.feed(GOOD["claude"][0])
    assert isinstance(reader.verdict(0, None, resumed=None), Succeeded)


@pytest.mark.parametrize("size", [70_000, 3_000_000, 5_000_000])
def test_e07_a_last_word_of_any_length_is_one(size: int) -> None:
    first = GOOD["claude"][0].splitlines(keepends=True)[:2]
    result = {"type": "result", "subtype": "success", "is_error": False, "num_turns": 1, "result": "y" * size, "session_id": UUID}
    told = read(built_in("claude"), b"".join(first) + lines(result), cuts=range(0, size, 65_536))
    assert isinstance(told.verdict, Succeeded)
    assert told.verdict.text == "worked"
    failed = read(built_in("claude"), b"".join(first) + lines({**result, "is_error": True}))
    assert isinstance(failed.verdict, Failed)
    history = {"type": "agent_end", "messages": [says("z" * size)]}
    told = read(built_in("pi"), b"".join(GOOD["pi"][0].splitlines(keepends=True)[:2]) + lines(history))
    assert isinstance(told.verdict, Succeeded)


def test_a_long_last_word_that_was_cut_off_is_none() -> None:
    first = GOOD["claude"][0].splitlines(keepends=True)[:2]
    half = b'{"type":"result","subtype":"success","is_error":false,"result":"' + b"y" * 2_000_000
    assert isinstance(read(built_in("claude"), b"".join(first) + half).verdict, Failed)


def test_a_message_of_many_megabytes_is_shown_and_kept_with_a_mark() -> None:
    out = lines({"type": "assistant", "message": says("a" * 600_000 + "end")}, {"type": "result", "subtype": "success"})
    reader = built_in("claude").reader()
    pieces = reader.feed(out)
    assert max(len(piece.text) for piece in pieces) <= PIECE
    assert "characters left out" in pieces[0].text + pieces[1].text
    assert len(reader.final_text) < KEPT + 100
    assert reader.final_text.endswith("end")


@pytest.mark.parametrize("depth", [1000, 20_000, 200_000])
def test_b08_deep_nesting_in_a_line(depth: int) -> None:
    deep = b'{"type":"user","x":' + b"[" * depth + b"]" * depth + b"}\n"
    word = b'{"type":"result","subtype":"success","is_error":false,"x":' + b"[" * depth + b"]" * depth + b"}\n"
    first = b"".join(GOOD["claude"][0].splitlines(keepends=True)[:2])
    told = read(built_in("claude"), deep + first + b"[" * depth + b"\n" + b'{"a":' * depth + b"\n" + word)
    assert isinstance(told.verdict, Succeeded)


@pytest.mark.parametrize(
    "line",
    [
        b"null",
        b"[]",
        b"{",
        b"{}",
        b'{"type":5}',
        b'{"type":null}',
        b'{"type":"unheard of"}',
        b'{"role":["assistant"]}',
        b'{"n":' + b"9" * 5000 + b"}",
        b'{"a":NaN}',
        b"\xff\xfe{",
        b'{"a":"\xff"}',
    ],
)
@pytest.mark.parametrize("id_", GOOD)
def test_unknown_output_is_text(id_: str, line: bytes) -> None:
    told = read(built_in(id_), line + b"\n" + GOOD[id_][0])
    assert told.shown.startswith(line.decode("utf-8", "replace") + "\n")
    assert isinstance(told.verdict, Succeeded)


@pytest.mark.parametrize("id_", GOOD)
@pytest.mark.parametrize("value", [None, 5, "x", [], [1], {}, {"content": 5}, {"content": [5, {"type": "text", "text": 5}]}])
def test_members_of_other_kinds_are_no_trouble(id_: str, value: object) -> None:
    for line in GOOD[id_][0].splitlines():
        doc = json.loads(line)
        for key in [key for key in doc if key not in ("type", "role")]:
            read(built_in(id_), lines({**doc, key: value}), lines({**doc, key: value}), 1, resumed=UUID)


def test_a_lone_surrogate_does_not_hide_a_result() -> None:
    out = b'{"type":"result","subtype":"success","is_error":false,"result":"cut \\ud83d"}\n'
    assert read(built_in("claude"), out).verdict == Succeeded(None, "cut �")


@pytest.mark.parametrize("id_", GOOD)
def test_interleaved_streams_stay_apart(id_: str) -> None:
    reader = built_in(id_).reader()
    shown = ""
    for at in range(0, len(GOOD[id_][0]), 7):
        shown += "".join(piece.text for piece in reader.feed(GOOD[id_][0][at : at + 7]))
        shown += "".join(piece.text for piece in reader.feed_err(b"no\ni"))
    assert isinstance(reader.verdict(0, None, resumed=None), Succeeded)
    assert "worked" in shown.replace("\nno", "").replace("\nino", "") or "wor" in shown


def test_standard_error_is_kept_at_both_ends() -> None:
    reader = built_in("claude").reader()
    reader.feed_err(f"No conversation found with session ID: {UUID}\n".encode())
    for _ in range(10):
        reader.feed_err(b"noise\n" * 10_000)
    reader.feed_err(b"the end\n")
    from cueloop_daemon.runners import Conversation, Gone

    assert isinstance(reader.verdict(1, None, resumed=Conversation(UUID)), Gone)
    failed = reader.verdict(1, None, resumed=None)
    assert isinstance(failed, Failed)
    assert failed.tail.endswith("the end")
    assert len(failed.tail) <= 2000


@given(st.binary(max_size=400), st.integers(1, 900), st.integers(1, 70_000))
def test_ends_do_not_depend_on_the_cuts(seed: bytes, repeat: int, step: int) -> None:
    data = (seed or b"x") * repeat
    whole, parts = Ends(), Ends()
    whole.add(data)
    for at in range(0, len(data), step):
        parts.add(data[at : at + step])
    assert (whole.text, whole.tail(50)) == (parts.text, parts.tail(50))
    if len(data) <= 2 * ENDS:
        assert whole.text == clean(data.decode("utf-8", "replace"))


@given(st.lists(st.text(max_size=50), max_size=20), st.integers(1, 20_000))
def test_growing_keeps_both_ends_whatever_the_parts(parts: list[str], repeat: int) -> None:
    text = "".join(parts) * repeat if len("".join(parts)) * repeat < 2_000_000 else "".join(parts)
    whole, growing = Growing(), Growing()
    whole.add(text)
    for at in range(0, len(text), 1000):
        growing.add(text[at : at + 1000])
    assert str(whole) == str(growing)
    assert whole.byte_size == growing.byte_size == len(text.encode())
    assert str(whole) == text or "characters left out" in str(whole)


def test_shorten_says_how_much_is_missing() -> None:
    assert shorten("abcdef", 6) == "abcdef"
    assert shorten("abcdefg", 6) == "abc\n[1 characters left out]\nefg"


def test_quiet_readers_leave_the_tools_out() -> None:
    use = {"type": "tool_use", "name": "Bash", "input": {"command": "make\n test"}}
    out = lines({"type": "assistant", "message": {"content": [use, {"type": "text", "text": "ok"}]}})
    for is_quiet, wanted in ((False, "[Bash] make test\nok\n"), (True, "ok\n")):
        assert "".join(piece.text for piece in built_in("claude").reader(is_quiet=is_quiet).feed(out)) == wanted


def test_a_tool_s_line_does_not_join_a_message_in_parts() -> None:
    part = {"type": "message", "role": "assistant", "content": "let me see", "delta": True}
    use = {"type": "tool_use", "tool_name": "shell", "parameters": {"command": "ls"}}
    told = read(built_in("gemini"), lines(part, use, part, b"plain\n", {"type": "result", "status": "success"}), b"err\n")
    assert told.shown == "let me see\n[shell] ls\nlet me see\nplain\nerr\n"
    assert told.reader.final_text == "let me see"


DEEP = b'{"type":"a\\"b", "n": -1.5 ,"o":{"x":"}"},"t":true,"z":null,"x":' + b"[" * 5000 + b"]" * 5000 + b',"last":"word"}'


def test_members_of_a_line_too_deep() -> None:
    doc = event_of(Line(DEEP))
    assert doc is not None
    assert (doc.text("type"), doc.text("last")) == ('a"b', "word")
    assert doc.is_true("t")
    assert "x" not in doc
    assert "o" not in doc
    assert event_of(Line(DEEP[:-1])) is None
    assert event_of(Line(b'{"x":' + b"[" * 5000 + b"]" * 5000 + b"}")) is None
    assert not Doc([1])


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='ab"\\{}[],:\u00e4 ', max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='ab"\\', max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(alphabet='ab"\\{},', max_size=4), VALUES, max_size=6), CUTS, st.booleans())
def test_scanned_members_are_the_plain_ones_of_the_object(value: dict[str, object], cuts: list[int], is_ascii: bool) -> None:
    scanner = MemberScanner()
    for part in cut(json.dumps(value, ensure_ascii=is_ascii).encode(), cuts):
        scanner.feed(part)
    assert scanner.is_whole
    assert scanner.found == {name: found for name, found in value.items() if not isinstance(found, dict | list)}


@given(st.binary(max_size=200), CUTS)
def test_the_scanner_takes_anything(data: bytes, cuts: list[int]) -> None:
    for part in cut(data, cuts):
        MemberScanner().feed(part)


def test_a_hostile_object_has_an_end() -> None:
    scanner = MemberScanner()
    scanner.feed(b'{"type":"x",' + b'"":0,' * 2_000_000 + b'"late":1}')
    assert scanner.found["type"] == "x"
    assert not scanner.is_whole
    assert "late" not in scanner.found


def test_the_order_of_members_does_not_matter() -> None:
    """In recent versions of claude the text stands before the type."""
    first = GOOD["claude"][0].splitlines(keepends=True)[:2]
    last = {"usage": {"a": [1, "}"]}, "is_error": False, "subtype": "success", "result": 'y"\\' * 700_000, "type": "result"}
    told = read(built_in("claude"), b"".join(first) + lines(last), cuts=range(0, 3_000_000, 70_001))
    assert isinstance(told.verdict, Succeeded)
    assert told.reader.last_word_seen
    assert "[result: a line of" in told.shown

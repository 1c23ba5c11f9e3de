"""Framing: the kind is decided by the first byte, pieces of any size give the same frames, and every buffer has its limit."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cueloop_protocol.codes import LIMIT_EXCEEDED, PARSE_ERROR
from cueloop_protocol.framing import HEADERS, LINES, MAX_FRAME, MAX_HEADERS, Decoder, FrameError, Kind, encode

BOM = b"\xef\xbb\xbf"
Frames = list[bytes | FrameError]


def decode(data: bytes, size: int | None = None, max_frame: int = MAX_FRAME) -> tuple[Frames, Kind | None]:
    """All frames of `data` fed in pieces of `size` bytes (None: at once), then its end."""
    decoder = Decoder(max_frame)
    step = size or max(len(data), 1)
    frames = [frame for at in range(0, len(data), step) for frame in decoder.feed(data[at : at + step])]
    return frames + decoder.finish(), decoder.kind


def messages(*bodies: bytes) -> bytes:
    return b"".join(encode(body, HEADERS) for body in bodies)


GOOD = [
    pytest.param(b'{"a":1}\n', [b'{"a":1}'], LINES, id="line"),
    pytest.param(b'{"a":1}\r\n[2]\n', [b'{"a":1}', b"[2]"], LINES, id="crlf-and-lf"),
    pytest.param(b"\n\r\n \t\n1\n\n\n2\n \n", [b"1", b"2"], LINES, id="d19-empty-lines"),
    pytest.param(b"1\n2", [b"1", b"2"], LINES, id="last-line-without-lf"),
    pytest.param(b"1\n \t", [b"1"], LINES, id="blanks-at-the-end"),
    pytest.param(b"", [], None, id="nothing"),
    pytest.param(b" \r\n\t\n", [], None, id="blanks-only"),
    pytest.param(BOM + b"1\n", [b"1"], LINES, id="b02-bom-before-line"),
    pytest.param(b" \n" + BOM + b" \n1\n", [b"1"], LINES, id="b02-bom-among-blanks"),
    pytest.param(BOM + messages(b"{}"), [b"{}"], HEADERS, id="b02-bom-before-headers"),
    pytest.param(BOM + BOM + b"1\n", [BOM + b"1"], LINES, id="second-bom-is-content"),
    pytest.param(b"1\n" + BOM + b"2\n", [b"1", BOM + b"2"], LINES, id="later-bom-is-content"),
    pytest.param(b"\xef\n", [b"\xef"], LINES, id="half-bom"),
    pytest.param(b"\xef\xbb", [b"\xef\xbb"], None, id="half-bom-then-end"),
    pytest.param(b"\xff\xfe\n1\n", [b"\xff\xfe", b"1"], LINES, id="d19-not-utf-8"),
    pytest.param(b"\0\0\n1\n", [b"\0\0", b"1"], LINES, id="d19-nul"),
    pytest.param(b"\x16\x03\x01\x02\x00\x01\n\xfc\x03", [b"\x16\x03\x01\x02\x00\x01", b"\xfc\x03"], LINES, id="d19-tls-hello"),
    pytest.param(
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", [b"GET / HTTP/1.1", b"Host: x"], LINES, id="d19-http-is-lines-that-are-no-json"
    ),
    pytest.param(messages(b"{}", b"", b'"C"'), [b"{}", b"", b'"C"'], HEADERS, id="messages"),
    pytest.param(b"\r\n Content-Length: 2\r\n\r\n{}", [b"{}"], HEADERS, id="blanks-before-headers"),
    pytest.param(b"content-LENGTH:2\n\n{}", [b"{}"], HEADERS, id="name-in-any-case-lf-only"),
    pytest.param(messages(b"1") + b"\r\n\n" + messages(b"2"), [b"1", b"2"], HEADERS, id="empty-lines-between-messages"),
    pytest.param(b"Content-Length: 0000000000000000000000002\r\n\r\n{}", [b"{}"], HEADERS, id="leading-zeros"),
    pytest.param(
        b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: 1\r\n\r\n1", [b"1"], HEADERS, id="utf-8"
    ),
    pytest.param(b'Content-Length: 1\r\nContent-Type: x; a=b; charset = "utf8"\r\n\r\n1', [b"1"], HEADERS, id="utf8"),
    pytest.param(b"Content-Length: 1\r\nX-Other: whatever\r\n\r\n1", [b"1"], HEADERS, id="other-headers"),
    pytest.param(messages(b"a\nContent-Length: 9\r\n\r\n"), [b"a\nContent-Length: 9\r\n\r\n"], HEADERS, id="headers-in-a-body"),
]


@pytest.mark.parametrize(("data", "frames", "kind"), GOOD)
@pytest.mark.parametrize("size", [None, 1, 2, 7])
def test_frames_of_good_input(data: bytes, frames: Frames, kind: Kind | None, size: int | None) -> None:
    assert decode(data, size) == (frames, kind)


BAD = [
    pytest.param(b"CONNECT x:1 HTTP/1.1\r\n\r\n", PARSE_ERROR, "Name: value", id="d19-http-connect"),
    pytest.param(b"Content Length: 1\r\n\r\n1", PARSE_ERROR, "Name: value", id="blank-in-the-name"),
    pytest.param(messages(b"1") + b": 1\r\n\r\n1", PARSE_ERROR, "Name: value", id="no-name"),
    pytest.param(b"Content-Length: 1\r\n : 1\r\n\r\n1", PARSE_ERROR, "Name: value", id="folded-header"),
    pytest.param(b"Content-Length: x\r\n\r\n1", PARSE_ERROR, "decimal", id="length-no-number"),
    pytest.param(b"Content-Length:\r\n\r\n1", PARSE_ERROR, "decimal", id="length-empty"),
    pytest.param(b"Content-Length: -1\r\n\r\n1", PARSE_ERROR, "decimal", id="length-negative"),
    pytest.param(b"Content-Length: +1\r\n\r\n1", PARSE_ERROR, "decimal", id="length-signed"),
    pytest.param("Content-Length: ١\r\n\r\n1".encode(), PARSE_ERROR, "decimal", id="length-in-other-digits"),
    pytest.param(b"Content-Length: 1\r\nContent-length: 1\r\n\r\n1", PARSE_ERROR, "two Content-Length", id="length-twice"),
    pytest.param(b"Content-Type: x\r\n\r\n1", PARSE_ERROR, "no Content-Length", id="length-missing"),
    pytest.param(b"Content-Type: x; charset=latin1\r\nContent-Length: 1\r\n\r\n1", PARSE_ERROR, "UTF-8", id="other-charset"),
    pytest.param(b"Content-Length: 101\r\n\r\n1", LIMIT_EXCEEDED, "larger than 100 bytes", id="d17-length-too-large"),
    pytest.param(b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n", LIMIT_EXCEEDED, "larger than 100", id="length-beyond-all"),
    pytest.param(b"Content-X: " + b"x" * MAX_HEADERS, LIMIT_EXCEEDED, "headers", id="one-endless-header"),
    pytest.param(b"Content-X: y\r\n" * 1000, LIMIT_EXCEEDED, "headers", id="endless-headers"),
    pytest.param(b"x" * 101 + b"\n", LIMIT_EXCEEDED, "larger than 100 bytes", id="d17-line-too-large"),
    pytest.param(b"1\n" + b"x" * 101, LIMIT_EXCEEDED, "larger than 100 bytes", id="d17-line-too-large-unfinished"),
]


@pytest.mark.parametrize(("data", "code", "text"), BAD)
@pytest.mark.parametrize("size", [None, 1, 2, 7])
def test_bad_input_ends_with_one_error(data: bytes, code: int, text: str, size: int | None) -> None:
    decoder = Decoder(100)
    step = size or len(data)
    frames = [frame for at in range(0, len(data), step) for frame in decoder.feed(data[at : at + step])]
    errors = [frame for frame in frames if isinstance(frame, FrameError)]
    assert [error.code for error in errors] == [code]
    assert text in errors[0].message
    assert frames[-1] is errors[0]
    assert decoder.feed(b"1\n") == []
    assert decoder.finish() == []


def test_frames_before_an_error_are_kept() -> None:
    frames, _ = decode(messages(b"1", b"2") + b"nonsense\r\n")
    assert frames[:2] == [b"1", b"2"]
    assert isinstance(frames[2], FrameError)


@pytest.mark.parametrize("data", [b"Content-Length: 5\r\n\r\n1", b"Content-Length: 5\r\n\r\n", b"Content-Length: 5\r\n", b"Con"])
def test_a_message_cut_short_is_an_error_at_the_end(data: bytes) -> None:
    frames, kind = decode(data)
    assert kind is HEADERS
    assert frames == [FrameError(PARSE_ERROR, "The input ended in the middle of a message.")]


def test_nothing_comes_after_the_end() -> None:
    decoder = Decoder()
    assert decoder.feed(b"1") == []
    assert decoder.finish() == [b"1"]
    assert decoder.finish() == []
    assert decoder.feed(b"2\n") == []


@pytest.mark.parametrize(("size", "fits"), [(99, True), (100, True), (101, False)])
@pytest.mark.parametrize("kind", [LINES, HEADERS])
def test_the_limit_counts_the_frame_alone(size: int, fits: bool, kind: Kind) -> None:
    start = {LINES: b"1\n", HEADERS: messages(b"1")}[kind]
    body = b"7" * size
    frames, decided = decode(start + encode(body, kind), 1, max_frame=100)
    assert decided is kind
    assert (frames == [b"1", body]) is fits


@pytest.mark.parametrize("size", [65_535, 65_536, 70_000, 5_000_000])
@pytest.mark.parametrize("kind", [LINES, HEADERS])
def test_d17_large_frames_then_a_small_one(size: int, kind: Kind) -> None:
    large = json.dumps("x" * (size - 2)).encode()
    assert decode(encode(large, kind) + encode(b"1", kind), 65_536) == ([large, b"1"], kind)


def test_a_frame_too_large_is_known_from_its_header_alone() -> None:
    decoder = Decoder()
    (error,) = decoder.feed(b"Content-Length: %d\r\n" % (MAX_FRAME + 1))
    assert isinstance(error, FrameError)
    assert error.code == LIMIT_EXCEEDED


def test_memory_stays_within_one_frame() -> None:
    limit = 256 * 1024
    decoder = Decoder(limit)
    tracemalloc.start()
    try:
        for _ in range(64):
            decoder.feed(b"x" * 64 * 1024)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * limit


class CountingBuffer(bytearray):
    """A buffer that counts how many bytes its searches may touch."""

    touched = 0

    def find(self, *args: object) -> int:  # type: ignore[override]  # the signature is bytearray's, only counted
        start = args[1] if len(args) > 1 else 0
        assert isinstance(start, int)
        self.touched += len(self) - start
        return super().find(*args)  # type: ignore[arg-type]  # as above


def test_many_small_feeds_of_one_line_look_at_each_byte_once() -> None:
    decoder = Decoder()
    decoder.feed(b"[")
    buffer = CountingBuffer(decoder._buffer)
    decoder._buffer = buffer
    for _ in range(20_000):
        decoder.feed(b"1,")
    assert decoder.feed(b"1]\n")[0] == b"[" + b"1," * 20_000 + b"1]"
    assert buffer.touched < 2 * 40_004


@given(st.lists(st.binary(max_size=30)), st.sampled_from([LINES, HEADERS]), st.data())
def test_what_is_encoded_is_decoded_however_it_is_cut(bodies: list[bytes], kind: Kind, data: st.DataObject) -> None:
    clean = [json.dumps(body.hex()).encode() for body in bodies]
    stream = b"".join(encode(body, kind) for body in clean)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    decoder = Decoder()
    frames = [
        frame for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True) for frame in decoder.feed(stream[start:end])
    ]
    assert frames == clean
    assert decoder.kind is (kind if clean else None)


HOSTILE = st.lists(
    st.sampled_from(
        [
            *(bytes([byte]) for byte in b"Cc{}[]1: \t\r\n\x00\x16"),
            b"Content-Length: ",
            b"Content-Length: 3\r\n\r\n",
            b"content-type: a; charset=utf-8\r\n",
            b"content-type: a; charset=b\r\n",
            b"\r\n\r\n",
            BOM,
            BOM[:2],
            b"x" * 30,
        ]
    )
    | st.binary(max_size=4)
).map(b"".join)


@given(HOSTILE, st.integers(1, 5))
@example(b"C: " + b"x" * 25 + b"\r\n", 1)
def test_any_input_gives_the_same_frames_one_byte_at_a_time(data: bytes, size: int) -> None:
    at_once = decode(data, None, max_frame=20)
    assert decode(data, 1, max_frame=20) == at_once
    assert decode(data, size, max_frame=20) == at_once
    assert sum(isinstance(frame, FrameError) for frame in at_once[0]) <= 1
    assert all(len(frame) <= 20 for frame in at_once[0] if isinstance(frame, bytes))


def test_a_pretty_printed_document_is_one_line() -> None:
    document = json.dumps({"a": [1, {"b": "line\nbreak"}]}, indent=2).encode()
    line = encode(document, LINES)
    assert line.count(b"\n") == 1
    assert json.loads(line) == json.loads(document)
    assert encode(document, HEADERS).endswith(document)


def test_a_peer_that_has_not_spoken_gets_a_line() -> None:
    assert encode(b"{}", None) == b"{}\n"


def test_an_error_is_a_value() -> None:
    error = FrameError(PARSE_ERROR, "no")
    assert error == FrameError(PARSE_ERROR, "no")
    assert hash(error) == hash(FrameError(PARSE_ERROR, "no"))
    assert error != FrameError(LIMIT_EXCEEDED, "no")
    assert error != "no"
    assert repr(error) == "FrameError(-32700, 'no')"

"""Bytes to frames and back, without I/O. Standard library only.

The first byte of a connection, after a byte order mark and white space, decides for its whole life: `C` or `c` begins LSP headers
(`Content-Length: …`), anything else one JSON text per line. No JSON text begins with a `C`, so nothing is lost by looking.
"""

from __future__ import annotations

from enum import Enum

from cueloop_protocol.codes import LIMIT_EXCEEDED, PARSE_ERROR

MAX_FRAME = 16 * 1024 * 1024
"""Bytes of one frame, without its line end or headers."""

MAX_HEADERS = 8 * 1024
"""Bytes of one header block. LSP clients send some 30; HTTP servers commonly stop at 8 KiB."""

_BOM = b"\xef\xbb\xbf"
_BLANKS = b" \t\r\n"
_UTF8 = (b"utf-8", b"utf8")  # LSP names the second as an old spelling to be accepted
_TOKEN = frozenset(b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")  # RFC 9110, 5.6.2


class Kind(Enum):
    """How frames are told apart on one connection."""

    LINES = "lines"
    HEADERS = "headers"


LINES = Kind.LINES
HEADERS = Kind.HEADERS


class FrameError:
    """The end of a connection's input: what follows cannot be told apart any more. `message` is one sentence for the peer.

    `code` is the RPC code of the answer that goes out before the connection closes: `limit_exceeded` or `parse_error`.
    """

    __slots__ = ("code", "message")

    def __init__(self, code: int, message: str) -> None:
        self.code = code
        self.message = message

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FrameError) and (self.code, self.message) == (other.code, other.message)

    def __hash__(self) -> int:
        return hash((self.code, self.message))

    def __repr__(self) -> str:
        return f"FrameError({self.code}, {self.message!r})"


class _Broken(Exception):
    """Carries a FrameError from where it was found to `feed`."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.error = FrameError(code, message)


def encode(body: bytes, kind: Kind | None) -> bytes:
    """One JSON text as it goes on the wire; None (the peer has not spoken yet) means lines.

    On a line a line break would end the frame; in JSON it can only stand between tokens, so it becomes a blank.
    """
    if kind is Kind.HEADERS:
        return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    if b"\n" in body:
        body = body.replace(b"\n", b" ")
    return body + b"\n"


class Decoder:
    """The frames in one connection's input, however it is cut into pieces.

    Holds at most one unfinished frame (`max_frame` bytes) or header block, and costs time in proportion to the bytes fed. A frame
    is bytes as sent, white space around a line removed; whether they are JSON is the reader's question.
    """

    def __init__(self, max_frame: int = MAX_FRAME) -> None:
        self._max_frame = max_frame
        self._kind: Kind | None = None
        self._buffer = bytearray()
        self._scanned = 0  # bytes of the buffer known to hold no line feed
        self._bom_may_come = True
        self._failed = False
        self._block = 0  # bytes of the header block so far, whole lines
        self._length: int | None = None  # the block's Content-Length
        self._body: int | None = None  # bytes of the body that the buffer is waiting for

    @property
    def kind(self) -> Kind | None:
        """None until the first byte that decides has come."""
        return self._kind

    def feed(self, data: bytes) -> list[bytes | FrameError]:
        """The frames that `data` completes, in order. A FrameError is the last item ever: what is fed after it is ignored."""
        if self._failed:
            return []
        if (
            self._kind is Kind.LINES
            and not self._buffer
            and data.find(b"\n") == len(data) - 1 > 0
            and len(data) - 1 <= self._max_frame
        ):
            line = data[:-1].strip(_BLANKS)  # the usual case: one whole line, nothing to keep
            return [line] if line else []
        self._buffer += data
        frames: list[bytes | FrameError] = []
        try:
            if self._kind is None:
                self._decide()
            if self._kind is Kind.LINES:
                self._take_lines(frames)
            elif self._kind is Kind.HEADERS:
                self._take_messages(frames)
        except _Broken as broken:
            frames.append(self._fail(broken.error))
        return frames

    def finish(self) -> list[bytes | FrameError]:
        """The input has ended: a last line without a line feed is a frame, a message cut short an error. Feeding is over."""
        rest = bytes(self._buffer.strip(_BLANKS))
        waits = self._body is not None or self._block > 0
        kind, failed = self._kind, self._failed
        self._failed = True
        self._buffer.clear()
        if failed or not (rest or waits):
            return []
        if kind is Kind.HEADERS:
            return [FrameError(PARSE_ERROR, "The input ended in the middle of a message.")]
        return [rest]

    def _fail(self, error: FrameError) -> FrameError:
        self._failed = True
        self._buffer.clear()
        return error

    def _decide(self) -> None:
        self._drop(len(self._buffer) - len(self._buffer.lstrip(_BLANKS)))
        if self._bom_may_come and self._buffer:
            if self._buffer.startswith(_BOM):
                self._bom_may_come = False
                self._drop(len(_BOM))
                return self._decide()
            if len(self._buffer) < len(_BOM) and _BOM.startswith(self._buffer):
                return None
        if self._buffer:
            self._kind = Kind.HEADERS if self._buffer[0] in b"Cc" else Kind.LINES
        return None

    def _take_lines(self, frames: list[bytes | FrameError]) -> None:
        start = 0
        while (end := self._buffer.find(b"\n", max(start, self._scanned))) >= 0:
            self._check_size(end - start)
            line = bytes(self._buffer[start:end].strip(_BLANKS))
            if line:
                frames.append(line)
            start = end + 1
        self._drop(start)
        self._scanned = len(self._buffer)
        self._check_size(self._scanned)

    def _take_messages(self, frames: list[bytes | FrameError]) -> None:
        start = 0
        while True:
            if self._body is not None:
                if len(self._buffer) - start < self._body:
                    break
                frames.append(bytes(self._buffer[start : start + self._body]))
                start += self._body
                self._body = None
                self._scanned = 0
            end = self._buffer.find(b"\n", max(start, self._scanned))
            self._check_block((end if end >= 0 else len(self._buffer)) - start)
            if end < 0:
                break
            self._take_header(bytes(self._buffer[start:end]), end + 1 - start)
            start = end + 1
        self._drop(start)
        self._scanned = len(self._buffer) if self._body is None else 0

    def _take_header(self, line: bytes, size: int) -> None:
        line = line.removesuffix(b"\r")
        if line:
            self._block += size
            self._read_header(line)
        elif self._block:  # an empty line before the first header is skipped, as HTTP does
            if self._length is None:
                raise _Broken(PARSE_ERROR, "A message has no Content-Length header.")
            self._body, self._length, self._block = self._length, None, 0

    def _read_header(self, line: bytes) -> None:
        name, colon, value = line.partition(b":")
        if not colon or not name or not _TOKEN.issuperset(name):
            raise _Broken(PARSE_ERROR, "A header line is not of the form Name: value.")
        name = name.lower()
        value = value.strip(b" \t")
        if name == b"content-length":
            if self._length is not None:
                raise _Broken(PARSE_ERROR, "A message has two Content-Length headers.")
            if not value.isdigit():
                raise _Broken(PARSE_ERROR, "Content-Length is not a decimal number.")
            digits = value.lstrip(b"0") or b"0"
            self._check_size(int(digits) if len(digits) < 20 else self._max_frame + 1)
            self._length = int(digits)
        elif name == b"content-type":
            self._check_charset(value)

    @staticmethod
    def _check_charset(value: bytes) -> None:
        for parameter in value.lower().split(b";")[1:]:
            key, _, charset = parameter.strip(b" \t").partition(b"=")
            if key.rstrip(b" \t") == b"charset" and charset.strip(b' \t"') not in _UTF8:
                raise _Broken(PARSE_ERROR, "Only UTF-8 is spoken here.")

    def _check_size(self, size: int) -> None:
        if size > self._max_frame:
            raise _Broken(LIMIT_EXCEEDED, f"A message is larger than {self._max_frame} bytes.")

    def _check_block(self, pending: int) -> None:
        if self._block + pending > MAX_HEADERS:
            raise _Broken(LIMIT_EXCEEDED, f"The headers of a message are larger than {MAX_HEADERS} bytes.")

    def _drop(self, count: int) -> None:
        if count:
            del self._buffer[:count]
        self._scanned = 0

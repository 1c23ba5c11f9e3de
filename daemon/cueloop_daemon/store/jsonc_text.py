"""The text side of JSONC: what to blank so that a strict reader can read it, and where in a file something stands.

Everything here works on bytes and keeps offsets: the stripped text is as long as the original and has its line ends at the same
places, so that a position found in one is the position in the other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator

_STRING = rb'"(?:[^"\\]++|\\.)*+"'
# A line comment ends at CR as well as at LF: a file with old Mac line ends must not lose the key after a comment.
_COMMENT = rb"//[^\r\n]*+|/\*(?:[^*]++|\*(?!/))*+\*/"
_GAP = rb"(?:[ \t\r\n]++|" + _COMMENT + rb")*+"
_TRAILING_COMMA = rb",(?=" + _GAP + rb"[\]}])"

# One match runs over everything that stays as it is. Possessive, and driven by a loop of `match` calls: with `sub` the same
# pattern starts over at each byte after the last comment, which is quadratic.
_KEPT = re.compile(rb'(?:[^"/,]++|' + _STRING + rb"|(?!" + _TRAILING_COMMA + rb"),|/(?![/*]))*+", re.DOTALL)
_DROPPED = re.compile(_COMMENT + rb"|,", re.DOTALL)
_BLANKS = bytes(byte if byte in b"\r\n" else 0x20 for byte in range(256))
_WHITE = b" \t\r\n"

_TOKEN = re.compile(
    r"""(?:[\s,]|//[^\r\n]*+|/\*(?:[^*]++|\*(?!/))*+\*/)*+          # what may stand between tokens
    ("(?:[^"\\]++|\\.)*+"|'(?:[^'\\]++|\\.)*+'|[{}\[\]:]|[^\s"'{}\[\]:,/]++|.)  # string, bracket, word, anything else""",
    re.DOTALL | re.VERBOSE,
)
_LINE_END = re.compile(rb"\r\n|\r|\n")


class Unclosed(ValueError):
    """A string or a comment has no end; `offset` is where it begins, `what` says which it is."""

    def __init__(self, what: str, offset: int) -> None:
        super().__init__(f"the {what} is not closed")
        self.offset = offset


def strip(data: bytes) -> bytes:
    """`data` with comments and trailing commas blanked: same length, same line ends; linear in its size.

    A comma with nothing before it (`[,]`, `[1,,]`) stays, so that the strict reader rejects it at its place.
    Raises `Unclosed`.
    """
    size, at, before = len(data), 0, b"["
    pieces: list[bytes] = []
    while True:
        match = _KEPT.match(data, at)
        end = match.end() if match else at
        kept = data[at:end]
        pieces.append(kept)
        if end == size:
            return data if at == 0 else b"".join(pieces)
        before = kept.rstrip(_WHITE)[-1:] or before
        dropped = _DROPPED.match(data, end)
        if dropped is None:
            raise Unclosed("string" if data[end : end + 1] == b'"' else "comment", end)
        at = dropped.end()
        if data[end : end + 1] != b",":
            pieces.append(data[end:at].translate(_BLANKS))
        else:
            pieces.append(b"," if before in b"[{,:" else b" ")
            before = b","


def place(data: bytes, offset: int) -> tuple[int, int]:
    """Line and column of a byte, both from 1; the column counts characters. CR, LF and CRLF each end a line."""
    line, start = 1, 0
    for end in _LINE_END.finditer(data, 0, offset):
        line, start = line + 1, end.end()
    return line, len(data[start:offset].decode("utf-8", "replace")) + 1


def duplicate_key(text: str) -> tuple[str, int] | None:
    """The first key that an object has twice, and the character where it stands the second time. Reads JSON5 as well."""
    seen: list[set[str]] = [set()]
    last = ("", 0)
    for token, at in _tokens(text):
        if token in ("{", "["):
            seen.append(set())
        elif token in ("}", "]"):
            seen.pop()
        elif token == ":":
            key = _key(last[0])
            if key in seen[-1]:
                return key, last[1]
            seen[-1].add(key)
        last = (token, at)
    return None


def find_token(text: str, wanted: Callable[[str], bool]) -> int | None:
    """The character where the first token stands that is `wanted`."""
    return next((at for token, at in _tokens(text) if wanted(token)), None)


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    at = 0
    while match := _TOKEN.match(text, at):
        at = match.end()
        yield match.group(1), match.start(1)


def _key(token: str) -> str:
    """A key as it is meant: `"a"`, `'a'`, `a` and `"\\u0061"` are one key."""
    if token[:1] not in ('"', "'"):
        return token
    try:
        return str(json.loads(token))
    except ValueError:
        return str(read_json5(token, dict))


def read_json5(text: str, make: Callable[[Iterable[tuple[str, object]]], object]) -> object:
    """The value of a JSON5 text; `make` gets each object's pairs. Raises ValueError, RecursionError and what `make` raises."""
    import json5  # the last resort: most daemons never need it

    value: object = json5.loads(text, object_pairs_hook=make)
    return value

"""The reader of every file we share: JSON first, then JSON with comments and trailing commas, then, for small files, JSON5.

What it promises (contract, section 3): UTF-8 with or without BOM and nothing else; an empty file is an error; duplicate keys are
an error that names the key, at any depth and in any spelling; numbers are finite; nesting is bounded; whatever is wrong is a
`JsoncError` with its place. Values are only `dict`, `list`, `str`, `int`, `float`, `bool` and `None`.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable

from pydantic_core import from_json

from cueloop_daemon.store.jsonc_text import Unclosed, duplicate_key, find_token, place, read_json5, strip

# The JSON5 reader is written in Python and takes some 15 µs a byte: a quarter of a second at this size.
JSON5_LIMIT = 16 * 1024

_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_STRICT = re.compile(r"(.*) at line (\d+) column (\d+)", re.DOTALL)
_LOOSE = re.compile(r'<string>:(\d+) Unexpected "(.)" at column (\d+)', re.DOTALL)
_TOO_DEEP = "nested too deeply (more than 200 levels)"
_REASONS = {
    "recursion limit exceeded": _TOO_DEEP,
    "control character (\\u0000-\\u001F) found while parsing a string": "a control character in a string must be escaped",
    "trailing characters": "something follows the end of the document",
    "EOF while parsing a value": "the file ends where a value should be",
    "EOF while parsing an object": "the file ends in the middle of an object",
    "EOF while parsing a list": "the file ends in the middle of a list",
    "EOF while parsing a string": "the file ends in the middle of a string",
}


class JsoncError(ValueError):
    """The bytes cannot be read. `line` and `column` count from 1; `reason` is a plain clause; `key` the duplicate one, if any."""

    def __init__(self, reason: str, line: int, column: int, key: str | None = None) -> None:
        super().__init__(f"{reason} (line {line}, column {column})")
        self.reason = reason
        self.line = line
        self.column = column
        self.key = key


def read_json(data: bytes, *, json5: bool = True) -> object:
    """The value that the file's bytes stand for.

    `json5` says whether single quotes, bare keys, hex and the rest of JSON5 are accepted too (in files up to `JSON5_LIMIT`).
    Raises `JsoncError` and nothing else.
    """
    data = data.removeprefix(_BOM)
    text = _decode(data)
    try:
        plain, value = _read_strict(data)
    except JsoncError as strict:
        if not json5 or len(data) > JSON5_LIMIT:
            raise
        return _read_loose(data, text, strict)
    _check_numbers_and_keys(plain, value)
    return value


def read_strict_json(data: bytes) -> object:
    """Like `read_json`, for files that must be plain JSON: no BOM, no comments, no trailing commas. Raises `JsoncError`."""
    _decode(data)
    try:
        value = from_json(data, allow_inf_nan=False)
    except ValueError as exc:
        raise _strict_error(data, str(exc)) from exc
    _check_numbers_and_keys(data, value)
    return value


def _decode(data: bytes) -> str:
    if data.startswith(_UTF16_BOMS):
        raise JsoncError("the file is UTF-16; it must be UTF-8", 1, 1)
    if data and not data.strip(b"\0"):
        raise JsoncError("the file holds nothing but NUL bytes", 1, 1)
    try:
        return data.decode()
    except UnicodeDecodeError as exc:
        reason = f"byte 0x{data[exc.start]:02x} is not UTF-8"
        raise JsoncError(reason, *place(data, exc.start)) from exc


def _read_strict(data: bytes) -> tuple[bytes, object]:
    """The text that was accepted, and its value. Most files are plain JSON, so that is tried before anything is stripped."""
    try:
        return data, from_json(data, allow_inf_nan=False)
    except ValueError:
        pass
    try:
        plain = strip(data)
    except Unclosed as exc:
        raise JsoncError(str(exc), *place(data, exc.offset)) from exc
    if not plain.strip():
        raise JsoncError("the file has comments and no value" if data.strip() else "the file is empty", 1, 1)
    try:
        return plain, from_json(plain, allow_inf_nan=False)
    except ValueError as exc:
        raise _strict_error(data, str(exc)) from exc


def _strict_error(data: bytes, message: str) -> JsoncError:
    match = _STRICT.fullmatch(message)
    if match is None:  # pragma: no cover - the reader has always said where
        return JsoncError(message, 1, 1)
    reason, line, column = match[1], int(match[2]), int(match[3])
    start = 0
    for _ in range(line - 1):  # the reader counts LF alone
        start = data.index(b"\n", start) + 1
    offset = len(data) if reason.startswith("EOF") else start + column - 1
    return JsoncError(_REASONS.get(reason, reason), *place(data, offset))


def _read_loose(data: bytes, text: str, strict: JsoncError) -> object:
    """The text as JSON5. If it is not that either, the reader that got further says what is wrong."""
    try:
        value = read_json5(text, _unique)
    except _DuplicateKeyError as exc:
        raise _duplicate(data, text, exc.key) from None
    except RecursionError:
        if strict.reason == _TOO_DEEP:
            raise strict from None
        raise JsoncError("not JSON, and nested too deeply to be read as JSON5", strict.line, strict.column) from None
    except ValueError as exc:
        raise _further(strict, str(exc)) from exc
    if _count(value)[1]:
        raise _not_finite(data, text)
    if not _is_unicode(value):
        raise JsoncError("half of a surrogate pair is not a character", strict.line, strict.column)
    return value


def _further(strict: JsoncError, message: str) -> JsoncError:
    """An end or a line end that comes too early says less than what the strict reader found, however far away it is."""
    match = _LOOSE.fullmatch(message)
    if match is None or match[2].isspace():
        return strict
    loose = JsoncError(f"unexpected {json.dumps(match[2], ensure_ascii=False)}", int(match[1]), int(match[3]))
    return loose if (loose.line, loose.column) > (strict.line, strict.column) else strict


def _check_numbers_and_keys(plain: bytes, value: object) -> None:
    """Raise for what the strict reader lets pass: a number beyond all bounds (`1e999`) and a key given twice."""
    keys, infinite = _count(value)
    if infinite:
        raise _not_finite(plain, plain.decode())
    # Each key's colon follows its quote or white space. No more such colons than keys in the value: none was lost. That is some
    # five times cheaper than reading again, and prose with a colon after a blank or quote only costs the second reading.
    if sum(map(plain.count, (b'":', b" :", b"\t:", b"\n:", b"\r:"))) == keys:
        return
    text = plain.decode()
    try:
        json.loads(text, object_pairs_hook=_unique)
    except _DuplicateKeyError as exc:
        raise _duplicate(plain, text, exc.key) from None


def _count(value: object) -> tuple[int, bool]:
    """How many keys the value has at all depths, and whether a number in it is infinite. No recursion; each container once."""
    keys, pending = 0, [value]
    while pending:
        node = pending.pop()
        if type(node) is dict:
            keys += len(node)
            pending += [child for child in node.values() if type(child) in _WORTH_A_LOOK]
        elif type(node) is list:
            pending += [child for child in node if type(child) in _WORTH_A_LOOK]
        elif type(node) is float and not math.isfinite(node):
            return keys, True
    return keys, False


_WORTH_A_LOOK = frozenset((dict, list, float))


def _not_finite(data: bytes, text: str) -> JsoncError:
    at = find_token(text, _is_not_finite) or 0
    return JsoncError("a number must be finite", *place(data, len(text[:at].encode())))


def _is_not_finite(token: str) -> bool:
    try:
        return not math.isfinite(float(token))
    except ValueError:
        return False


def _is_unicode(value: object) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    except ValueError:
        return True  # a whole number of thousands of digits, which only its text form has a limit for
    return True


class _DuplicateKeyError(Exception):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def _unique(items: Iterable[tuple[str, object]]) -> dict[str, object]:
    pairs = list(items)
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _DuplicateKeyError(Counter(key for key, _ in pairs).most_common(1)[0][0])
    return found


def _duplicate(data: bytes, text: str, key: str) -> JsoncError:
    found = duplicate_key(text)
    key, at = found or (key, 0)
    return JsoncError(f"duplicate key {json.dumps(key, ensure_ascii=False)}", *place(data, len(text[:at].encode())), key)

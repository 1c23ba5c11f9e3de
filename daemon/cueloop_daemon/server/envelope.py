"""JSON-RPC 2.0 on the outside of a call: a frame becomes requests, an answer becomes a frame. No I/O.

`jsonrpcserver` sees a request only after this: it would answer for a whole batch at once, and drop the id of a request that it
finds invalid.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel
from pydantic_core import from_json, to_json

from cueloop_daemon.server.requests import Result
from cueloop_protocol import codes
from cueloop_protocol.codes import RpcError
from cueloop_protocol.values import dataclass


class Absent:
    """The id of a notification."""


ABSENT: Final = Absent()

Id = str | int | float | None
"""An id goes back as it came; null is one."""


@dataclass(frozen=True, slots=True)
class Message:
    """A valid request or, with an ABSENT id, a notification. `raw` is what was sent, for the dispatcher."""

    id: Id | Absent
    method: str
    params: Any
    raw: Mapping[str, Any]
    is_short: bool = False
    """Whether it came in a frame of at most `SHORT` bytes."""


@dataclass(frozen=True, slots=True)
class Invalid:
    """What is to be answered instead of a call."""

    id: Id
    error: RpcError


SHORT: Final = 1024

_SMALL: Final = 64 * 1024
"""Pieces of a larger frame would take more memory than a second, closer reading."""


class _Doubled(dict[str, Any]):
    """An object with the same key twice, itself or somewhere inside: which value was meant, nobody can tell."""

    repeated: Sequence[str] = ()
    """The keys, the object's own first."""
    has_one_id: bool = True


def read(frame: bytes) -> object:
    """The JSON value in `frame`. Raises RpcError (-32700) if it is none, or has NaN, a half surrogate or some 200 levels."""
    try:
        value: object = from_json(frame, allow_inf_nan=False, cache_strings="keys")
    except ValueError as error:
        raise codes.parse_error(_reason(str(error))) from None
    return value if _keys_are_unique(frame, value) else _read_closely(frame)


def messages(value: object, most: int, size: int) -> Message | Invalid | list[Message | Invalid]:
    """What a frame of `size` bytes asks for: one thing, or a batch, each of it judged by itself.

    A batch of none, or of over `most`, fails.
    """
    if not isinstance(value, list):
        return message(value, is_short=size <= SHORT)
    if not value:
        return Invalid(None, codes.invalid_request("a batch needs at least one request"))
    if len(value) > most:
        return Invalid(None, codes.invalid_request(f"a batch may have {most} requests, this one has {len(value)}"))
    return [message(item, is_short=size <= SHORT) for item in value]


def message(value: object, *, is_short: bool = False) -> Message | Invalid:
    """One request. An Invalid has the request's id wherever that can be told."""
    if not isinstance(value, dict):
        return Invalid(None, codes.invalid_request("a request is an object"))
    found = value.get("id", ABSENT)
    if isinstance(value, _Doubled):
        told = found if value.has_one_id and _is_id(found) and not isinstance(found, Absent) else None
        return Invalid(told, codes.invalid_request(f"the key {value.repeated[0][:100]!r} is there twice"))
    if not _is_id(found):
        return Invalid(None, codes.invalid_request("id is a string, a number or null"))
    method = value.get("method", ABSENT)
    params = value.get("params", ABSENT)
    if method is ABSENT and ("result" in value or "error" in value):
        # An answer to nothing. Its id is of another series than the peer's own requests, so it must not come back.
        return Invalid(None, codes.invalid_request("nothing was asked of this side, so there is nothing to answer"))
    if value.get("jsonrpc") != "2.0":
        problem = 'jsonrpc is "2.0"'
    elif not isinstance(method, str):
        problem = "method is a string"
    elif params is not ABSENT and not isinstance(params, dict | list):
        problem = "params is an object or an array"
    else:
        return Message(found, method, params, value, is_short)
    return Invalid(None if isinstance(found, Absent) else found, codes.invalid_request(problem))


def answer(id: Id, result: Result) -> bytes:  # noqa: A002  (the protocol's word)
    """A response with a result. Raises ValueError if the result cannot be JSON; bytes are taken on trust."""
    body = result if isinstance(result, bytes) else to_json(result)
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (_id(id), body)


def refusal(id: Id, error: RpcError) -> bytes:  # noqa: A002  (the protocol's word)
    """A response with an error."""
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (_id(id), to_json(error.to_wire()))


def notification(method: str, params: BaseModel) -> bytes:
    """A message to the peer that wants no answer."""
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (to_json(method), to_json(params))


def joined(answers: Sequence[bytes]) -> bytes:
    """The answer to a batch."""
    return b"[%b]" % b",".join(answers)


def _id(id: Id) -> bytes:  # noqa: A002  (the protocol's word)
    return b"%d" % id if type(id) is int else to_json(id)


def _is_id(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or value is ABSENT or isinstance(value, str) or type(value) is int


def _keys_are_unique(frame: bytes, value: object) -> bool:
    """Whether no object in `value`, which is what `frame` says, has a key twice; False only means that a closer look is needed.

    Each key that was sent has a colon, and of two that are the same one is left. A colon inside a string is one too many: then each
    string before a colon is looked at, and no two may be the same, even of different objects.
    """
    if len(frame) > _SMALL:
        return False
    if frame.count(b":") == _keys(value):
        return True
    if b"\\" in frame:
        return False
    pieces = frame.split(b'"')
    keys = [text for text, after in zip(pieces[1::2], pieces[2::2], strict=True) if after.lstrip(b" \t\r\n").startswith(b":")]
    return len(keys) == len(set(keys))


def _keys(value: object) -> int:
    """How many keys all objects in it have together."""
    if isinstance(value, dict):
        return len(value) + sum(_keys(item) for item in value.values() if isinstance(item, dict | list))
    return sum(_keys(item) for item in value) if isinstance(value, list) else 0


def _read_closely(frame: bytes) -> object:
    """The same value, but each request (the whole, or an item of a batch) that has a key twice at any depth is a `_Doubled`."""
    found_one = False

    def note(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal found_one
        found = dict(pairs)
        if len(found) == len(pairs):
            return found
        found_one = True
        return _doubled(found, _repeated([key for key, _ in pairs]))

    value: object = json.loads(frame, object_pairs_hook=note)
    if not found_one:
        return value
    return [_marked(item) for item in value] if isinstance(value, list) else _marked(value)


def _doubled(value: dict[str, Any], keys: Sequence[str]) -> _Doubled:
    made = _Doubled(value)
    made.repeated, made.has_one_id = keys, "id" not in keys
    return made


def _repeated(keys: Sequence[str]) -> list[str]:
    seen: set[str] = set()
    repeated: list[str] = []
    for key in keys:
        (repeated.append if key in seen else seen.add)(key)
    return repeated


def _marked(value: object) -> object:
    """`value`, or if something below it has a key twice, a `_Doubled` of it. Other things than objects stay as they are."""
    if not isinstance(value, dict) or isinstance(value, _Doubled):
        return value
    waiting: list[object] = list(value.values())
    while waiting:
        item = waiting.pop()
        if isinstance(item, _Doubled):
            made = _doubled(value, item.repeated)
            made.has_one_id = True
            return made
        if isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
    return value


def _reason(text: str) -> str:
    """pydantic's sentence; it has a place and never the text itself."""
    return text[:200]

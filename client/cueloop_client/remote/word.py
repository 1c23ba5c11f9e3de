"""What goes to the other side on ssh's command line, and the greeting that comes back. Pure. Standard library only.

The remote command is read by the login shell there, whatever that is: bash, fish and tcsh do not agree on quoting. So everything that
can vary is one word of letters, digits, `-` and `_`.
"""

from __future__ import annotations

import base64
import binascii
import json

from cueloop_client.failures import BadAnswer, Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

LONGEST = 96 * 1024
"""Characters of one word: Linux takes 128 KiB as one argument."""
MARKER = b"\0cueloop-dial "
"""Begins the greeting; what a login prints before it has no NUL."""


def to_word(value: Mapping[str, Any]) -> str:
    """The word for an object. Raises Usage if it is too long for a command line."""
    text = base64.urlsafe_b64encode(line_of(value)).decode().rstrip("=")
    if len(text) > LONGEST:
        raise Usage("These arguments are too long to be handed to another machine.")
    return text


def from_word(word: str) -> dict[str, Any]:
    """The object in a word. Raises Usage if there is none."""
    try:
        value: object = json.loads(base64.b64decode(word + "=" * (-len(word) % 4), altchars=b"-_", validate=True))
    except (ValueError, RecursionError, binascii.Error):
        value = None
    if not isinstance(value, dict):
        raise Usage("This command is called by `cueloop --host …` on another machine; its argument is not for people.")
    return value


def greeting(nonce: str, value: Mapping[str, Any]) -> bytes:
    """The line that the other side writes first."""
    return MARKER + nonce.encode("ascii") + b" " + line_of(value)


def line_of(value: Mapping[str, Any]) -> bytes:
    """The object as one line of ASCII, its end included."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"


def has_greeting_begun(data: bytes | bytearray, nonce: str) -> bool:
    """Whether its marker has come."""
    return MARKER + nonce.encode("ascii") + b" " in data


def find_greeting(data: bytes | bytearray, nonce: str) -> tuple[int, int] | None:
    """Where the greeting's line begins and ends in what came so far, its line end included; None if it is not whole yet."""
    begin = data.find(MARKER + nonce.encode("ascii") + b" ")
    end = data.find(b"\n", begin) if begin >= 0 else -1
    return (begin, end + 1) if end >= 0 else None


def read_greeting(line: bytes, nonce: str) -> dict[str, Any]:
    """What the greeting says. Raises BadAnswer."""
    try:
        value: object = json.loads(line[len(MARKER) + len(nonce) + 1 :])
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise BadAnswer("The cueloop on the other machine greets with something that is not JSON.")
    return value

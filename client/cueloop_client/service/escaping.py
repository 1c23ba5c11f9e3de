"""Paths as systemd writes them: in the name of an instance, and in the values of a unit file. Standard library only."""

from __future__ import annotations

import os

PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:_.")
"""Bytes that stand for themselves in a unit's name (systemd.unit(5), "String Escaping for Inclusion in Unit Names")."""
LONGEST_INSTANCE = 200
"""Bytes of an instance. A file's name ends at 255, and `cueloopd@`, `.service.d` and a temporary name's ending need their part."""


def instance_of(path: str, key: str) -> str:
    """The instance for the repository at `path`, as `systemd-escape --path` gives it; for a long one `h-` and its hash `key`."""
    name = escape_path(path)
    return name if len(name) <= LONGEST_INSTANCE else f"h-{key}"


def escape_path(path: str) -> str:
    """The absolute path as `systemd-escape --path` writes it: `/` is `-`, other bytes than letters, digits, `:_.` are `\\xHH`."""
    parts = [part for part in os.fsencode(path).split(b"/") if part]
    text = b"/".join(parts)
    if not text:
        return "-"
    return "".join(_escaped(byte, is_first=number == 0) for number, byte in enumerate(text))


def _escaped(byte: int, *, is_first: bool) -> str:
    if byte == ord("/"):
        return "-"
    if byte not in PLAIN or (is_first and byte == ord(".")):
        return f"\\x{byte:02x}"
    return chr(byte)


def quoted(text: str) -> str:
    """The text as one word of a unit's command line or assignment, in double quotes, with `%` standing for itself.

    Bytes that are no UTF-8 are escaped, since a line that has such is ignored as a whole.
    """
    out = []
    for char in text.replace("%", "%%"):
        if char in '\\"':
            out.append("\\" + char)
        elif "\udc80" <= char <= "\udcff" or char < " " or char == "\x7f":
            out += [f"\\x{byte:02x}" for byte in os.fsencode(char)]
        else:
            out.append(char)
    return '"' + "".join(out) + '"'


def plain(text: str) -> str | None:
    """The text as a value that is not split into words; None where it cannot be one: it is no UTF-8, or has control characters."""
    if any("\udc80" <= char <= "\udcff" or char < " " or char == "\x7f" for char in text):
        return None
    return text.replace("%", "%%")

"""`ssh://user@box:port/path`: what names a repository on another machine. Pure. Standard library only."""

from __future__ import annotations

import os
import re

from cueloop_client.failures import Usage
from cueloop_protocol.frozen import Frozen

FORM = "ssh://user@box:port/path/to/repo"
_USER = re.compile(r"[A-Za-z0-9_.+\\][A-Za-z0-9_.+\\$@-]*\Z")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")
_ADDRESS = re.compile(r"[0-9A-Fa-f:.]+(%[A-Za-z0-9_.-]+)?\Z")
_BROKEN = re.compile(r"%(?![0-9A-Fa-f]{2})")


class HostUrl(Frozen):
    """A repository on another machine.

    `host` is a name of the user's ssh configuration, a host name, or an address without brackets. `path` is absolute, or begins with `~/`
    (the remote home), or is `~`; it is resolved there.
    """

    user: str | None
    host: str
    port: int | None
    path: str

    @property
    def machine(self) -> str:
        """The machine for people: `user@box:2222`."""
        who = f"{self.user}@" if self.user is not None else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{who}{host}{f':{self.port}' if self.port is not None else ''}"


def parse_host(text: str) -> HostUrl:
    """What the text names. Raises Usage with one sentence that says what is wrong.

    Nothing that ssh or a shell could take for something else passes: a leading `-`, blanks and control characters in user and host.
    """
    scheme, sep, rest = text.partition("://")
    if not sep or scheme.lower() != "ssh":
        raise Usage(f"--host takes {FORM}, not {text!r}.")
    if "?" in rest or "#" in rest:
        raise Usage(f"--host takes {FORM} without `?` and `#`; write them as %3F and %23 where a path has them.")
    authority, slash, path = rest.partition("/")
    userinfo, at, place = authority.rpartition("@")
    if ":" in userinfo:
        raise Usage("--host takes no password: let ssh ask for it, or use a key.")
    user = _decoded(userinfo, "user") if at else None
    if user is not None and not _USER.match(user):
        raise Usage(f"--host: {user!r} is no user name.")
    host, port = _place(place)
    return HostUrl(user, host, port, _path(slash + path))


def _place(text: str) -> tuple[str, int | None]:
    if text.startswith("["):
        address, bracket, after = text[1:].partition("]")
        host = _decoded(address, "host")
        if not bracket or ":" not in host or not _ADDRESS.match(host) or (after and not after.startswith(":")):
            raise Usage(f"--host: {text!r} is no IPv6 address in brackets.")
        return host, _port(after[1:]) if after else None
    name, colon, number = text.partition(":")
    if ":" in number:
        raise Usage(f"--host: an IPv6 address stands in brackets, as in ssh://[{text}]/path.")
    host = _decoded(name, "host")
    if not _NAME.match(host):
        raise Usage(f"--host: {host!r} is no host name." if host else f"--host names no machine: it takes {FORM}.")
    return host, _port(number) if colon else None


def _port(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0
    if not 0 < number < 65536:
        raise Usage(f"--host: {text!r} is no port; it takes a number from 1 to 65535.")
    return number


def _path(text: str) -> str:
    path = _decoded(text, "path")
    if path in ("", "/"):
        raise Usage(f"--host names no repository: it takes {FORM}; ssh://box/~/code/app is below the home there.")
    if "\0" in path:
        raise Usage("--host: a path has no NUL.")
    return path[1:] if path.startswith("/~/") or path == "/~" else path


def _decoded(text: str, what: str) -> str:
    if _BROKEN.search(text):
        raise Usage(f"--host: {text!r} has a % that begins no %XX; write %25 for it.")
    from urllib.parse import unquote_to_bytes

    return os.fsdecode(unquote_to_bytes(os.fsencode(text)))

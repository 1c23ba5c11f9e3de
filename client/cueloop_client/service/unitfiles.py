"""The files of a systemd service: two templates for all repositories, two drop-ins for each. Standard library only."""

from __future__ import annotations

from cueloop_client.service.escaping import plain, quoted
from cueloop_client.service.sealed import Sealed, seal
from cueloop_client.service.templates import template
from cueloop_protocol.owners import path_word, word_path
from cueloop_protocol.place import SOCKET

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_client.service.wanted import Wanted

UNITS = ("cueloopd@.socket", "cueloopd@.service")
DROP_IN = "50-cueloop.conf"
ROOT_LINE, PROGRAM_LINE = "# repository: ", "# interpreter: "


def shared_files(folder: str) -> tuple[Sealed, ...]:
    """The templates in `folder`. Raises templates.NoTemplate."""
    return tuple(seal(f"{folder}/{name}", template("systemd", name)) for name in UNITS)


def own_files(folder: str, wanted: Wanted) -> tuple[Sealed, ...]:
    """The drop-ins of one repository."""
    texts = {"socket": _socket(wanted), "service": _service(wanted)}
    return tuple(seal(f"{drop_in_folder(folder, wanted.instance, kind)}/{DROP_IN}", text) for kind, text in texts.items())


def drop_in_folder(folder: str, instance: str, kind: str) -> str:
    """Where the drop-ins of an instance are."""
    return f"{folder}/cueloopd@{instance}.{kind}.d"


def repository_of(content: bytes) -> str | None:
    """The repository that a drop-in of ours is for."""
    return _told(content, ROOT_LINE)


def program_of(content: bytes) -> str | None:
    """The interpreter that a drop-in of ours starts."""
    return _told(content, PROGRAM_LINE)


def _socket(wanted: Wanted) -> bytes:
    """The socket stands where clients compute it. `%t` is the runtime folder, which clients know as XDG_RUNTIME_DIR."""
    where = plain(f"{wanted.path}/.cueloop")
    # A repository that is gone makes no failed unit at each login.
    condition = [f"ConditionPathIsDirectory={where}"] if where is not None else []
    lines = ["[Unit]", *_description("Socket of CueLoop's daemon", wanted), *condition]
    return _text(wanted, *lines, "", "[Socket]", "ListenStream=", f"ListenStream=%t/cueloopd/{wanted.key}/{SOCKET}")


def _service(wanted: Wanted) -> bytes:
    """The colon keeps `$` in a path from being replaced."""
    argv = " ".join(quoted(word) for word in _executable(wanted.argv))
    environ = [f"Environment={quoted(f'{name}={value}')}" for name, value in wanted.environ]
    lines = ["[Unit]", *_description("CueLoop's daemon", wanted)]
    return _text(wanted, *lines, "", "[Service]", "ExecStart=", f"ExecStart=:{argv}", *environ)


def _executable(argv: tuple[str, ...]) -> tuple[str, ...]:
    """systemd refuses an executable whose path has a quote, a backslash or bytes that are no UTF-8; as an argument it takes it."""
    if plain(argv[0]) is not None and not set(argv[0]) & set("\\\"'"):
        return argv
    return ("/bin/sh", "-c", 'exec "$@"', "sh", *argv)


def _description(what: str, wanted: Wanted) -> list[str]:
    """In quotation marks, so that a backslash at a path's end continues no line."""
    where = plain(wanted.path)
    return [f'Description={what} for "{where}"'] if where is not None else []


def _text(wanted: Wanted, *lines: str) -> bytes:
    head = [ROOT_LINE + path_word(wanted.path), PROGRAM_LINE + path_word(wanted.argv[0]), ""]
    return "\n".join([*head, *lines, ""]).encode()


def _told(content: bytes, name: str) -> str | None:
    for line in content.decode("utf-8", "replace").splitlines():
        if line.startswith(name):
            return word_path(line.removeprefix(name))
    return None

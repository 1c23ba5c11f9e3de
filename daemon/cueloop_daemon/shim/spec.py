"""The files by which the daemon tells a shim what it is for and what to start. Both ends import this. Standard library only.

`run.json` is written before the shim is started and never changed. `<n>.order` is written before the order `start n` is sent; its
token ties the number to this content. All are mode 0600.
"""

from __future__ import annotations

from cueloop_daemon.shim.lean import dumps, loads
from cueloop_daemon.shim.wire import WireError, seconds
from cueloop_protocol.frozen import Frozen

RUN_FILE = "run.json"
SHIM_FILE = "shim.json"
LOCK_FILE = "shim.lock"
RECORD_FILE = "shim.jsonl"
TOMBSTONE = "over"
LIMIT = 8 * 1024 * 1024
"""Bytes of any of these files: an environment and a command line are never longer."""


class SpecError(Exception):
    """A file of the daemon's is not what it must be."""


class RunSpec(Frozen):
    """`run.json`. `root` is for comparing and for people; what is done there is done through the inherited descriptor.

    `socket` is an absolute path that fits a socket. `daemon_argv` (absolute program) and `daemon_env` bring a daemon back.
    `budget`: bytes of output kept for the whole run. `grace`: seconds that a child has to leave when it is not said otherwise.
    """

    run_id: str
    protocol: int
    root: str
    socket: str
    daemon_argv: tuple[str, ...]
    daemon_env: dict[str, str]
    budget: int
    grace: float


class OrderSpec(Frozen):
    """`<n>.order`. `argv[0]` is absolute. `env` is the child's whole environment, but for the run's id.

    `stdin` is the name of a file in the run's folder, or an absolute path; None is /dev/null. `idle`, `wall`: seconds, None without
    limit. `grace`: seconds to leave, None for the run's.
    """

    token: str
    kind: str
    argv: tuple[str, ...]
    env: dict[str, str]
    stdin: str | None
    idle: float | None
    wall: float | None
    grace: float | None


def file_bytes(spec: RunSpec | OrderSpec) -> bytes:
    """The content of the file."""
    return dumps(vars(spec)) + b"\n"


def parse_run(data: bytes) -> RunSpec:
    """`run.json`. Raises SpecError."""
    raw = _object(data)
    budget, protocol = raw.get("budget"), raw.get("protocol")
    if type(budget) is not int or budget < 0 or type(protocol) is not int:
        raise SpecError("budget, protocol: not numbers")
    return RunSpec(
        _text(raw, "run_id"),
        protocol,
        _text(raw, "root"),
        _text(raw, "socket"),
        _texts(raw, "daemon_argv"),
        _map(raw.get("daemon_env"), "daemon_env"),
        budget,
        _seconds(raw, "grace") or 0.0,
    )


def parse_order(data: bytes) -> OrderSpec:
    """`<n>.order`. Raises SpecError."""
    raw = _object(data)
    argv = _texts(raw, "argv")
    if not argv or not argv[0].startswith("/"):
        raise SpecError("argv: no absolute program")
    return OrderSpec(
        _text(raw, "token"),
        _text(raw, "kind"),
        argv,
        _map(raw.get("env"), "env"),
        None if raw.get("stdin") is None else _text(raw, "stdin"),
        _seconds(raw, "idle"),
        _seconds(raw, "wall"),
        _seconds(raw, "grace"),
    )


def _object(data: bytes) -> dict[str, object]:
    try:
        raw: object = loads(data)
    except (ValueError, RecursionError):
        raise SpecError("not JSON") from None
    if not isinstance(raw, dict):
        raise SpecError("not an object")
    return raw


def _text(raw: dict[str, object], name: str) -> str:
    value = raw.get(name)
    if not isinstance(value, str) or "\0" in value:
        raise SpecError(f"{name}: not text without NUL")
    return value


def _texts(raw: dict[str, object], name: str) -> tuple[str, ...]:
    value = raw.get(name)
    if not isinstance(value, list) or not all(isinstance(one, str) and "\0" not in one for one in value):
        raise SpecError(f"{name}: not a list of texts without NUL")
    return tuple(value)


def _map(value: object, name: str) -> dict[str, str]:
    if not isinstance(value, dict):
        raise SpecError(f"{name}: no object")
    for key, text in value.items():
        if not isinstance(text, str) or "\0" in text or "\0" in key or "=" in key or not key:
            raise SpecError(f"{name}: {key!r} is no variable")
    return value


def _seconds(raw: dict[str, object], name: str) -> float | None:
    try:
        return seconds(raw.get(name), name)
    except WireError as exc:
        raise SpecError(str(exc)) from None

"""The words between a daemon and the shim of a run, protocol 1. Both ends import this. Standard library only.

A message is one line of JSON of at most 64 KiB, an object with one key, the word. A daemon sends wishes. The shim answers each with
one message that repeats the wish's word as `to` and its number as `n`; `start` and `signal` are answered when their effect is there,
the others at once and in order. Messages without `to` are pushed: `grown`, `exited`, `trouble`, `cancelled`.

    hello {generation, protocols: [low, high], run_id}  -> shim {STATE} | refused {why: version, fenced, run}
    lock {n, label, command, started_at, clear?: {dev, ino, owner: text or null}}
                                                        -> made {dev, ino, owner} | held {dev, ino, owner, names} | error {errno}
    unlock {n}                                          -> unlocked {left: [name]} | absent | foreign | error {errno}
    start {n, token}                                    -> started {pid, start} | failed {stage, errno} | exited {EXIT}
                                                           | barred | conflict | busy | forgotten
    signal {n, grace}                                   -> gone | barred | forgotten
    limits {n, idle?, leave_within?}                    -> ok
    status {}                                           -> state {STATE}
    ack {upto}                                          -> ok
    end {}                                              -> bye | busy
    anything else                                       -> unknown {word}

STATE: protocol, orders {"n": word of its last answer, or starting}, child {n, pid, start, out, err} or null, lock {dev, ino} or null,
cancelled. EXIT: pid, start, code and signal (one of them null, or both), cause, out, err, dropped, left. Bytes of an owner file are text in
UTF-8 with lone surrogates for what is none (`surrogateescape`). `n` rises; `fenced` is also pushed, as `refused`, before the end
of a connection that a later generation has taken the place of.
"""

from __future__ import annotations

from cueloop_daemon.shim.lean import dumps, loads
from cueloop_protocol.frozen import Frozen

PROTOCOL = 1
FRAME_LIMIT = 64 * 1024
"""Bytes of a line, without its line feed."""
SEGMENT = 8 * 1024 * 1024
"""Bytes of each file of output but the last: `<n>.out.<k>` holds the logical bytes from `k * SEGMENT`."""
NUMBER_LIMIT = 2**53
STOPPED = ".cueloop/cache/cueloopd/stopped"
"""Below the root: while it is there, a shim starts no daemon."""
RUNS = ".cueloop/cache/cueloopd/runs"
"""Below the root: the folders of the runs, named by their ids."""


class WireError(Exception):
    """The other end broke the protocol: the connection is of no more use."""


class Clear(Frozen):
    """The lock that a daemon judged to be a dead holder's. `owner` None: it stands without an owner file."""

    device: int
    inode: int
    owner: bytes | None


class Hello(Frozen):
    """The first line of a connection. `low` to `high` are the protocols that the daemon speaks, inclusive."""

    generation: int
    low: int
    high: int
    run_id: str


class Lock(Frozen):
    """Take the queue lock."""

    n: int
    label: str
    command: str
    started_at: str
    clear: Clear | None = None


class Unlock(Frozen):
    """Let the queue lock go."""

    n: int


class Start(Frozen):
    """Start the child of `<n>.order`, whose token must be this one."""

    n: int
    token: str


class Signal(Frozen):
    """End a child and all its kin within `grace` seconds; one that was not started never will be."""

    n: int
    grace: float


class Limits(Frozen):
    """Change a child's limits from now on: seconds; None leaves that one as it is."""

    n: int
    idle: float | None
    leave_within: float | None


class Status(Frozen):
    """Ask for the state."""


class Ack(Frozen):
    """What became of the orders up to this one is on record elsewhere."""

    upto: int


class End(Frozen):
    """Leave."""


class Unknown(Frozen):
    """A word of another protocol."""

    word: str


Wish = Hello | Lock | Unlock | Start | Signal | Limits | Status | Ack | End | Unknown


class Lines:
    """Cuts what arrives into lines. A line over FRAME_LIMIT raises WireError."""

    def __init__(self) -> None:
        self._rest = b""

    @property
    def is_partial(self) -> bool:
        """Whether the beginning of a line waits for its end."""
        return bool(self._rest)

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are complete now, without their line feeds."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > FRAME_LIMIT or any(len(line) > FRAME_LIMIT for line in lines):
            raise WireError("a line is too long")
        return lines


def encode(word: str, **fields: object) -> bytes:
    """One message as a line."""
    return dumps({word: fields}) + b"\n"


def parse_wish(line: bytes) -> Wish:
    """The wish in a line. Raises WireError for what is none; keys of a later version are ignored."""
    try:
        raw: object = loads(line)
    except (ValueError, RecursionError):
        raise WireError("not a line of JSON") from None
    if not isinstance(raw, dict) or len(raw) != 1:
        raise WireError("not an object with one key")
    (word, fields) = next(iter(raw.items()))
    if not isinstance(fields, dict):
        raise WireError(f"{word}: no object")
    return _wish(word, fields)


def owner_text(owner: bytes) -> str:
    """Bytes of an owner file as they travel."""
    return owner.decode("utf-8", "surrogateescape")


def owner_bytes(text: str) -> bytes:
    """The reverse of `owner_text`. Raises WireError for text that no bytes give."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise WireError("owner: not the text of any bytes") from None


def _wish(word: str, fields: dict[str, object]) -> Wish:
    match word:
        case "hello":
            low, high = _range(fields.get("protocols"))
            return Hello(_number(fields, "generation"), low, high, _text(fields, "run_id"))
        case "lock":
            return Lock(
                _number(fields, "n"),
                _text(fields, "label"),
                _text(fields, "command"),
                _text(fields, "started_at"),
                _clear(fields.get("clear")),
            )
        case "unlock":
            return Unlock(_number(fields, "n"))
        case "start":
            return Start(_number(fields, "n"), _text(fields, "token"))
        case "signal":
            return Signal(_number(fields, "n"), seconds(fields.get("grace"), "grace") or 0.0)
        case "limits":
            idle, leave = seconds(fields.get("idle"), "idle"), seconds(fields.get("leave_within"), "leave_within")
            return Limits(_number(fields, "n"), idle, leave)
        case "status":
            return Status()
        case "ack":
            return Ack(_number(fields, "upto"))
        case "end":
            return End()
    return Unknown(word)


def seconds(value: object, name: str) -> float | None:
    """A span of time; None stays None. Raises WireError for what is none."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= NUMBER_LIMIT:
        raise WireError(f"{name}: not a number of seconds")
    return float(value)


def _number(fields: dict[str, object], name: str) -> int:
    value = fields.get(name)
    if type(value) is not int or not 0 <= value <= NUMBER_LIMIT:
        raise WireError(f"{name}: not a number")
    return value


def _text(fields: dict[str, object], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise WireError(f"{name}: not text")
    return value


def _range(value: object) -> tuple[int, int]:
    match value:
        case [int(low), int(high)]:
            return low, high
    raise WireError("protocols: not two numbers")


def _clear(value: object) -> Clear | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise WireError("clear: no object")
    owner = None if value.get("owner") is None else owner_bytes(_text(value, "owner"))
    device, inode = value.get("dev"), value.get("ino")
    if type(device) is not int or type(inode) is not int:
        raise WireError("clear: no device and inode")
    return Clear(device, inode, owner)

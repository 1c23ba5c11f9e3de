"""What a dead shim left on record: its children, their exits, and the queue lock. Only to be read when no shim lives."""

from __future__ import annotations

import json
import os
from dataclasses import field
from typing import Annotated

from pydantic import BaseModel, ConfigDict, PlainValidator, ValidationError

from cueloop_daemon.runs.shim import files
from cueloop_daemon.runs.shim.folder import Folder
from cueloop_daemon.runs.types import Cause, Exited, LockMade, NotStarted
from cueloop_daemon.shim import queuelock
from cueloop_daemon.shim.spec import RECORD_FILE
from cueloop_daemon.shim.wire import Clear, WireError, owner_bytes
from cueloop_daemon.store.not_writable import not_writable
from cueloop_protocol.roots import Root
from cueloop_protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class Born:
    """A process that was forked as a child. It ran nothing, unless its gate was opened; nothing else ever ran."""

    number: int
    pid: int
    start: str


@dataclass(frozen=True, slots=True)
class ShimRecord:
    """`boot` is that of the last shim of the run; None without one. `lock` is the queue lock that it may have left."""

    boot: str | None = None
    children: tuple[Born, ...] = ()
    exits: dict[int, Exited] = field(default_factory=dict)
    failures: dict[int, NotStarted] = field(default_factory=dict)
    lock: LockMade | None = None
    is_cancelled: bool = False
    farewell: str | None = None

    @property
    def survivors(self) -> tuple[Born, ...]:
        """Children whose end is not on record: they, or their kin, may live."""
        return tuple(one for one in self.children if one.number not in self.exits and one.number not in self.failures)


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class _Up(_Line):
    boot: str


class _Lock(_Line):
    dev: int
    ino: int
    owner: Annotated[bytes, PlainValidator(lambda value: _owner(value))]


class _Child(_Line):
    n: int
    pid: int
    start: str


class _Failed(_Line):
    n: int
    stage: str
    errno: int


class _Exit(_Line):
    n: int
    code: int | None
    signal: int | None
    cause: Cause
    out: int
    err: int
    dropped: int


class _Bye(_Line):
    why: str


def read_record(folder: Folder) -> ShimRecord:
    """The record of the run's shim; an empty one if there is none. Raises OSError where it cannot be read."""
    return parse_record(files.get(folder.fd, RECORD_FILE, folder.uid) or b"")


def parse_record(data: bytes) -> ShimRecord:
    """Never raises: a line that is torn, or of a later version, says nothing."""
    children: dict[int, Born] = {}
    exits: dict[int, Exited] = {}
    failures: dict[int, NotStarted] = {}
    boot: str | None = None
    lock: LockMade | None = None
    is_cancelled, farewell = False, None
    for word, raw in _lines(data):
        try:
            match word:
                case "up":
                    boot, farewell = _Up.model_validate(raw).boot, None
                case "lock":
                    made = _Lock.model_validate(raw)
                    lock = LockMade(made.dev, made.ino, made.owner)
                case "unlock":
                    lock = None
                case "child":
                    born = _Child.model_validate(raw)
                    children[born.n] = Born(born.n, born.pid, born.start)
                case "failed":
                    bad = _Failed.model_validate(raw)
                    failures[bad.n] = NotStarted(bad.stage, bad.errno)
                case "exit":
                    end = _Exit.model_validate(raw)
                    exits[end.n] = Exited(end.code, end.signal, end.cause, end.out, end.err, end.dropped)
                case "cancelled":
                    is_cancelled = True
                case "bye":
                    farewell = _Bye.model_validate(raw).why
        except ValidationError:
            continue
    return ShimRecord(boot, tuple(children.values()), exits, failures, lock, is_cancelled, farewell)


def release_lock(root: Root, lock: LockMade) -> bool:
    """Remove the queue lock that a dead shim left, if it still is exactly that, whoever has its pid now; whether it is gone.

    False: the lock is somebody else's by now, or live helpers' files keep the folder. Raises NotWritable.
    """
    fd = os.open(root.base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        standing = queuelock.look(fd)
        if standing is None:
            return True
        if (standing.device, standing.inode) != (lock.device, lock.inode):
            return False
        if standing.owner not in (lock.owner, None):
            return False
        queuelock.clear(fd, Clear(lock.device, lock.inode, standing.owner))
        after = queuelock.look(fd)
        return after is None or (after.device, after.inode) != (lock.device, lock.inode)
    except OSError as exc:
        raise not_writable(exc, f"{root.path}/.cueloop/lock", "remove") from exc
    finally:
        os.close(fd)


def _lines(data: bytes) -> list[tuple[str, dict[str, object]]]:
    """Records up to the first NUL: the file is longer than what was written."""
    found = []
    for line in data.partition(b"\0")[0].split(b"\n"):
        try:
            raw: object = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(raw, dict) and len(raw) == 1:
            word, fields = next(iter(raw.items()))
            if isinstance(fields, dict):
                found.append((word, fields))
    return found


def _owner(value: object) -> bytes:
    if not isinstance(value, str):
        raise ValueError("not text")
    try:
        return owner_bytes(value)
    except WireError as exc:
        raise ValueError(str(exc)) from exc

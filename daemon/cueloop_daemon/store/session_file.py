"""The session file, read (contract section 2): what it turned out to be is a value, whatever the file is."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from typing import Final

from pydantic import ValidationError

from cueloop_daemon.core.model import (
    SessionCorrupt,
    SessionFile,
    SessionLoaded,
    SessionMissing,
    SessionTooLarge,
    SessionTooNew,
    SessionUnreadable,
)
from cueloop_daemon.store.etag import SESSION_LIMIT, etag_of_bytes, etag_of_stat
from cueloop_daemon.store.explain import what_is_wrong
from cueloop_daemon.store.jsonc import JsoncError, read_json
from cueloop_protocol.documents.session import SESSION_VERSION, Session

_KNOWN_KEYS: Final[dict[tuple[str, ...], tuple[str, ...]]] = {(): tuple(Session.model_fields)}
_NO_FILE: Final = frozenset({errno.ENOENT, errno.ENOTDIR})
_LARGEST_VERSION: Final = 2**32 - 1
_CHUNK: Final = 64 * 1024

OpenFile = Callable[[str, int], int]
"""`os.open` or what stands for it: path and flags to a descriptor; raises OSError."""


def classify(data: bytes) -> SessionLoaded | SessionCorrupt | SessionTooNew:
    """What these bytes are. Comments, trailing commas and a BOM are read over, else the JSON is strict. Never raises."""
    etag = etag_of_bytes(data)
    try:
        value = read_json(data, json5=False)
    except JsoncError as error:
        return SessionCorrupt(f"The session file cannot be read: line {error.line}, column {error.column}: {error.reason}.", etag)
    newer = _newer_version(value)
    if newer is not None:
        return SessionTooNew(newer, etag)
    try:
        return SessionLoaded(Session.model_validate(value), etag)
    except ValidationError as error:
        return SessionCorrupt(f"The session file is no session: {what_is_wrong(error, _KNOWN_KEYS)}", etag)


def _newer_version(value: object) -> int | None:
    version: object = value.get("version") if isinstance(value, dict) else None
    return version if type(version) is int and SESSION_VERSION < version <= _LARGEST_VERSION else None


def read_session(path: str, open_file: OpenFile = os.open) -> SessionFile:
    """What the file at `path` is. Links are not followed, a FIFO does not block, and over 1 MiB nothing is read. Never raises.

    `path` is what system calls get; no message shows it.
    """
    try:
        descriptor = open_file(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return SessionMissing() if error.errno in _NO_FILE else SessionUnreadable(_why_not_opened(error))
    try:
        return _read_open(descriptor)
    except OSError as error:
        return SessionUnreadable(f"The session file cannot be read: {_words(error)}.")
    finally:
        os.close(descriptor)


def _read_open(descriptor: int) -> SessionFile:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        return SessionUnreadable(f"The session file is {_kind(status.st_mode)}, not a file.")
    if status.st_size > SESSION_LIMIT:
        return SessionTooLarge(status.st_size, etag_of_stat(status))
    data = bytearray()
    while chunk := os.read(descriptor, _CHUNK):
        data += chunk
        if len(data) > SESSION_LIMIT:  # it grows while it is read
            status = os.fstat(descriptor)
            return SessionTooLarge(max(status.st_size, len(data)), etag_of_stat(status))
    return classify(bytes(data))


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    if stat.S_ISFIFO(mode):
        return "a FIFO"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"


def _why_not_opened(error: OSError) -> str:
    match error.errno:
        case errno.ELOOP | errno.EMLINK:  # the BSDs say EMLINK for a link that is not followed
            return "The session file is a symbolic link, which is refused."
        case errno.ENXIO | errno.EOPNOTSUPP:
            return "The session file is a socket, not a file."
        case _:
            return f"The session file cannot be opened: {_words(error)}."


def _words(error: OSError) -> str:
    return (error.strerror or "an unknown error").lower()

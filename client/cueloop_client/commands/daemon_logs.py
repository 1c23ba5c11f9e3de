"""`cueloop daemon logs`."""

from __future__ import annotations

import os
from threading import Event

from cueloop_client.exchange import ask
from cueloop_client.failures import Failure
from cueloop_client.reach import reach
from cueloop_protocol.place import FOLDER
from cueloop_protocol.roots import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_client.context import Context

LOG = f"{FOLDER}/daemon.log"
LINES = 50
CHUNK = 64 * 1024
PAUSE = 0.25
"""Seconds between two looks at a log that is followed."""


def run(context: Context) -> int:
    """Print the last lines of the log, and with --follow what is added, also after the log was rotated. Needs no daemon."""
    number = context.values.number("lines", LINES)
    path = log_path(context)
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise Failure(f"There is no log yet at {shown(path)}: the daemon has not run here.") from None
    try:
        context.world.write(1, last_lines(file, number))
        if context.values.has("follow"):
            follow(context, path, file)
    finally:
        os.close(file)
    return 0


def log_path(context: Context) -> str:
    """Where the running daemon says that its log is, else where it would be."""
    root = context.root()
    try:
        sock = reach(root, context.world, context.world.deadline(context.seconds), any_version=True)
        if sock is not None:
            with sock:
                status = ask(sock, "daemon.status", {}, context.world.deadline(context.seconds))
            told = status["paths"]["log"]
            if isinstance(told, str) and os.path.isabs(told) and root.path == root.base:
                return told
    except Exception:  # noqa: S110  (a daemon that is ill is when its log is wanted most)
        pass
    return root.join(LOG)


def last_lines(fd: int, number: int) -> bytes:
    """The last `number` lines of the open file, which is then read up to its end."""
    end = os.lseek(fd, 0, os.SEEK_END)
    tail = b""
    start = end
    while start > 0 and tail.count(b"\n") <= number:
        size = min(CHUNK, start)
        start -= size
        tail = os.pread(fd, size, start) + tail
    lines = tail.splitlines(keepends=True)
    return b"".join(lines[-number:]) if number else b""


def follow(context: Context, path: str, fd: int) -> None:
    """Print what is added, for ever. A log that was rotated is read to its end before the new one is opened."""
    pause = Event()
    current = os.dup(fd)
    try:
        while True:
            while piece := os.read(current, CHUNK):
                context.world.write(1, piece)
            following = _replaced(path, current)
            if following is None:
                pause.wait(PAUSE)
            else:
                os.close(current)
                current = following
    finally:
        os.close(current)


def _replaced(path: str, current: int) -> int | None:
    """The file that has taken the log's place, opened; None if there is none."""
    try:
        if os.path.samestat(os.stat(path), os.fstat(current)):
            return None
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None

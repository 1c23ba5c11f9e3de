"""`cueloop daemon logs`."""

from __future__ import annotations

import os
import select

from cueloop_client.again import ask_running
from cueloop_client.context import encoded
from cueloop_client.failures import Failure
from cueloop_client.last_words import LastWords, last_words
from cueloop_client.log_text import readable
from cueloop_client.logfile import Following
from cueloop_protocol.place import FOLDER
from cueloop_protocol.roots import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_client.context import Context

LOG = f"{FOLDER}/daemon.log"
LINES = 50
PAUSE = 0.25
"""Seconds between two looks at a log that is followed."""


def run(context: Context) -> int:
    """Print the last lines of the log, and with --follow what is added, also after the log was rotated. Needs no daemon."""
    number = context.values.number("lines", LINES)
    path = log_path(context)
    follows = context.values.has("follow")
    log = Following(path)
    try:
        said = last_words(context)
        try:
            _print(context, log.begin(number))
        except FileNotFoundError:
            missing = f"There is no log yet at {shown(path)}: the daemon has not run here."
            if not follows and said is None:
                raise Failure(missing) from None
            context.say(f"cueloop: {missing}{' Waiting for it.' if follows else ''}")
        if said is not None:
            _tell(context, said)
        while follows:
            _print(context, log.added())
            _pause()
    finally:
        log.close()
    return 0


def log_path(context: Context) -> str:
    """Where the running daemon says that its log is, else where it would be."""
    root = context.root()
    try:
        deadline = context.world.deadline(context.seconds)
        status = ask_running(root, context.world, deadline, "daemon.status", any_version=True)
        if status is not None:
            told = status["paths"]["log"]
            if isinstance(told, str) and os.path.isabs(told) and root.path == root.base:
                return told
    except Exception:  # noqa: S110  (a daemon that is ill is when its log is wanted most)
        pass
    return root.join(LOG)


def _print(context: Context, lines: bytes) -> None:
    if lines:
        context.world.write(1, lines if context.json else encoded(readable(lines)))


def _tell(context: Context, said: LastWords) -> None:
    """On standard error, so that a program that reads the log is not disturbed."""
    if said.reason:
        context.say(f"cueloop: the last start of the daemon failed: {said.reason}")
    if said.stderr:
        context.say(f"cueloop: no daemon runs here now; the last one said on its standard error:\n{said.stderr}")


def _pause() -> None:
    """Wait a little. Raises BrokenPipeError once nobody reads our standard output any more, also if nothing is written."""
    poll = select.poll()
    poll.register(1, 0)
    for _, happened in poll.poll(PAUSE * 1000):
        if happened & select.POLLERR:
            raise BrokenPipeError
        # A closed or strange descriptor is reported at once, over and over: it is no reason to spin.
        select.select([], [], [], PAUSE)

"""Starting the daemon when it is needed: once, however many ask at the same time. Standard library only.

A start lock makes one of many callers the starter; the others wait for it and then find the daemon. That there is only one
does not depend on this lock: the daemon's own locks decide, and a second one says who owns the repository and leaves.
"""

from __future__ import annotations

import os

from cueloop_client.backoff import Backoff
from cueloop_client.exchange import connect
from cueloop_client.failures import Silent, StartFailed
from cueloop_client.far import FarRoot
from cueloop_client.reach import reach
from cueloop_client.spawn import Died, Managed, Outcome, Owned, Ready, Refused, Stays, Unready, spawn
from cueloop_client.startlock import start_lock
from cueloop_protocol.frozen import Frozen
from cueloop_protocol.place import PlaceError, ensure_private_folder, local_folder, root_hash

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import TypeVar

    from cueloop_client.world import Deadline, World
    from cueloop_protocol.roots import Root

    T = TypeVar("T")

START_SECONDS = 30.0
"""How long a start may take; a cold one takes a third of a second, one on a busy machine some seconds."""
NAMELESS_SECONDS = 0.5
"""How long an owner that has not written its pid yet is waited for before the start is tried again."""
INTERRUPTED = "signal 2"
INTERRUPTIONS = 3
"""How many a start bears that end the new process by SIGINT; who wants to end it otherwise has other signals."""
OWNER_PAUSE = 0.05
"""Seconds between two looks for the socket of a daemon that owns the repository and has none to connect to."""


def launch(root: Root, world: World, deadline: Deadline, *, at_once: bool = False) -> socket.socket:
    """A connection to the root's daemon, which is started if none listens. `at_once`: also if it failed a moment ago.

    Raises StartFailed with the daemon's own reason, Silent when it takes longer than the deadline, and what `reach` raises.
    """
    if isinstance(root, FarRoot):
        sock = root.distance.dial(deadline, start=True)
        if sock is None:
            raise StartFailed("The daemon on the other machine was not started.")
        return sock

    def started() -> socket.socket:
        place = start_place(root, world)
        with start_lock(f"{place.base}.start", deadline):
            sock = reach(root, world, deadline)
            if sock is not None:
                return sock
            if not at_once:
                place.backoff.check()
            return start_here(root, world, deadline, place)

    return despite_sweepers(world, started)


def despite_sweepers(world: World, start: Callable[[], T]) -> T:
    """What `start` returns, which begins with `start_place`; once more if it fails and that folder is gone: a cleaner of `/tmp` took
    it in the middle. Raises what `start` does."""
    try:
        return start()
    except StartFailed:
        if os.path.lexists(local_folder(world.uid)):
            raise
    return start()


class StartPlace(Frozen):
    """What a start needs beside the daemon. `base` begins the names of the start lock and of `words`, its standard error."""

    base: str
    words: str
    backoff: Backoff


def start_place(root: Root, world: World) -> StartPlace:
    """Where starts of this root's daemon meet. Raises StartFailed."""
    folder = local_folder(world.uid)
    try:
        ensure_private_folder(folder, world.uid)
    except PlaceError as exc:
        raise StartFailed(f"The daemon cannot be started: {exc}.", f"Remedy: {exc.remedy}.", word="permission_denied") from exc
    base = f"{folder}/{root_hash(root)}"
    return StartPlace(base, f"{base}.stderr", Backoff(f"{base}.failed", world.wall))


def start_here(root: Root, world: World, deadline: Deadline, place: StartPlace) -> socket.socket:
    """Start it now, the start lock being held. Raises what `launch` does."""
    return _start(root, world, deadline, place.base, place.backoff)


def _start(root: Root, world: World, deadline: Deadline, base: str, backoff: Backoff) -> socket.socket:
    outcome = _spawn(root, world, f"{base}.stderr", deadline)
    while isinstance(outcome, Owned | Managed):
        backoff.clear()
        if isinstance(outcome, Managed):
            sock = connect(outcome.socket, world.uid, deadline)
        else:
            sock = _await_owner(root, world, deadline, outcome.pid)
        if sock is not None:
            return sock
        outcome = _spawn(root, world, f"{base}.stderr", deadline)
    if isinstance(outcome, Ready):
        backoff.clear()
        sock = connect(outcome.socket, world.uid, deadline)
        if sock is None:
            raise StartFailed("The daemon started and was gone before it could be asked.", f"It was process {outcome.pid}.")
        return sock
    if isinstance(outcome, Unready):
        raise Silent(
            f"The daemon (process {outcome.pid}) is starting and was not ready within {deadline.seconds:g} s.",
            "It goes on starting: try again in a moment, or answer without it by --no-daemon.",
        )
    raise _failure(outcome, backoff)


def _spawn(root: Root, world: World, stderr_path: str, deadline: Deadline) -> Outcome:
    """One start. Again, a few times, if a Ctrl-C that was meant for us met the new process before it had left our terminal."""
    outcome = spawn(root, world, stderr_path, deadline)
    for _ in range(INTERRUPTIONS):
        if not (isinstance(outcome, Died) and outcome.ending == INTERRUPTED):
            break
        outcome = spawn(root, world, stderr_path, deadline)
    return outcome


def _failure(outcome: Stays | Refused | Died, backoff: Backoff) -> StartFailed:
    if not isinstance(outcome, Died):
        failure = StartFailed(outcome.message, outcome.detail, word=outcome.word)
    else:
        said = f"It said last:\n{outcome.last_words}" if outcome.last_words else "It said nothing."
        failure = StartFailed(f"The daemon died while it started ({outcome.ending}).", said)
    backoff.record(failure)
    return failure


def _await_owner(root: Root, world: World, deadline: Deadline, pid: int | None) -> socket.socket | None:
    """Another daemon owns the repository but nobody listened: it is about to, restores a socket that was removed, or leaves.

    Nothing tells us when, so this looks again from time to time; the start lock lets only one of many callers do so. None once
    the owner is gone, or where it is not known who it is and it had a moment to say so: then a start is worth another try.
    """
    from threading import Event

    from cueloop_protocol.identity import process_start_time

    pause = Event()
    started = process_start_time(pid) if pid is not None else None
    until = world.monotonic() + NAMELESS_SECONDS
    while True:
        sock = reach(root, world, deadline)
        if sock is not None:
            return sock
        # Without a start time it was gone before we looked, or cannot be seen from here.
        is_gone = world.monotonic() >= until if pid is None or started is None else process_start_time(pid) != started
        if is_gone and not deadline.is_over():
            return None
        if deadline.is_over():
            who = f"process {pid}" if pid is not None else "another process"
            raise Silent(
                f"The repository is owned by a daemon ({who}) that cannot be reached (waited {deadline.seconds:g} s).",
                "Try again, or end it with `cueloop daemon stop`.",
            )
        pause.wait(min(OWNER_PAUSE, deadline.left()))

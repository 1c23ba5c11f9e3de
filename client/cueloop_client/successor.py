"""This version's daemon in the place of the one that runs. Standard library only.

A successor is started beside it and asks for its socket and locks, so that no caller finds nobody. A daemon that is too old to
know how leaves first; then there is a moment without one, and callers start the next as always.
"""

from __future__ import annotations

import os
from contextlib import suppress

from cueloop_client.exchange import ask, connect
from cueloop_client.failures import BadAnswer, Failure, Lost, Misfit, Silent, StartFailed
from cueloop_client.launch import despite_sweepers, start_here, start_place
from cueloop_client.reach import answered_process, reach, told_process
from cueloop_client.spawn import Died, Ready, Refused, Stays, Unready, spawn
from cueloop_client.startlock import start_lock
from cueloop_client.waiting import await_end
from cueloop_protocol.codes import RUN_ACTIVE, SHUTTING_DOWN, RpcError
from cueloop_protocol.frozen import Frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Literal

    from cueloop_client.launch import StartPlace
    from cueloop_client.reach import Process
    from cueloop_client.world import Deadline, World
    from cueloop_protocol.roots import Root

    Runs = Literal["refuse", "leave", "cancel"]
    How = Literal["started", "handover", "restart"]

WHEN_IDLE = "cueloop daemon restart --when-idle"
LEAVE_SECONDS = 20.0
"""What a daemon that cannot hand over has to leave; it has an end of its own before that."""


class Replaced(Frozen):
    """The daemon that runs now. `how`: none ran; the socket was handed over; or the old one left first."""

    pid: int | None
    how: How


class Stayed(Failure):
    """The daemon that runs stays, and goes on serving. `why` as the successor said it."""

    def __init__(self, stays: Stays) -> None:
        super().__init__(stays.message, stays.detail, word=stays.word)
        self.why = stays.why
        self.pid = stays.pid


def is_under_run(exc: Exception) -> bool:
    """Whether the daemon stays because a run is active."""
    if isinstance(exc, RpcError):
        return exc.code == RUN_ACTIVE
    return isinstance(exc, Stayed) and exc.word == "resource_busy" and exc.why == "refused"


def replace(root: Root, world: World, deadline: Deadline, runs: Runs) -> tuple[socket.socket, Replaced]:
    """A connection to this version's daemon, started now. Raises Stayed, StartFailed, Silent, and what `reach` raises.

    Whatever is raised, callers are served as before, or, where the old daemon is gone already, by the next that is started.
    """

    def replaced() -> tuple[socket.socket, Replaced]:
        place = start_place(root, world)
        with start_lock(f"{place.base}.start", deadline):
            owner = reach(root, world, deadline, any_version=True, may_wake=False)
            if owner is None:
                return start_here(root, world, deadline, place), Replaced(None, "started")
            owner.close()
            return _beside(root, world, deadline, place, runs)

    return despite_sweepers(world, replaced)


def upgrade(root: Root, world: World, deadline: Deadline, misfit: Misfit) -> socket.socket:
    """A connection to this version's daemon instead of an older one with which it shares no protocol; not under a run.

    Says so on standard error. Raises what `replace` does, and Misfit with the command that settles it where a run is active.
    """
    try:
        sock, replaced = replace(root, world, deadline, "refuse")
    except (Stayed, RpcError) as exc:
        if not is_under_run(exc):
            raise
        stays = f"{exc.message} Bring the new version when it is over: {WHEN_IDLE}"
        raise Misfit(misfit.message, stays) from exc
    if replaced.how != "started":
        world.write(2, b"The daemon of an older version was replaced by this one's.\n")
    return sock


def _beside(root: Root, world: World, deadline: Deadline, place: StartPlace, runs: Runs) -> tuple[socket.socket, Replaced]:
    """The owner goes on until the successor holds its socket."""
    words = f"{place.base}.heir.stderr"
    outcome = spawn(root, world, words, deadline, take_over=runs)
    match outcome:
        case Ready(socket=path, pid=pid):
            with suppress(OSError):
                os.replace(words, place.words)
            place.backoff.clear()
            sock = connect(path, world.uid, deadline)
            if sock is None:
                raise StartFailed("The new daemon started and was gone before it could be asked.", f"It was process {pid}.")
            return sock, Replaced(pid, "handover")
        case Stays(why="old" | "managed"):
            _have_it_leave(root, world, runs)
            sock = reach(root, world, deadline, any_version=True) if outcome.why == "managed" else None
            return sock or start_here(root, world, deadline, place), Replaced(None, "restart")
        case Stays():
            raise Stayed(outcome)
        case Refused(word=word, message=message, detail=detail):
            raise StartFailed(f"The new daemon cannot start: {message}", detail, word=word)
        case Died(ending=ending, last_words=said):
            raise StartFailed(f"The new daemon died while it started ({ending}).", f"It said last:\n{said}" if said else None)
        case Unready(pid=pid):
            raise Silent(f"The new daemon (process {pid}) was not ready within {deadline.seconds:g} s.", "Try again in a moment.")
        case _:  # the owner left in between, and somebody else has the repository now
            return start_here(root, world, deadline, place), Replaced(None, "restart")


def _have_it_leave(root: Root, world: World, runs: Runs) -> None:
    """The old way: it leaves, and is gone when this returns. Raises RpcError (`run_active`), Silent."""
    deadline = world.deadline(LEAVE_SECONDS)
    sock = reach(root, world, deadline, any_version=True, may_wake=False)
    if sock is None:
        return
    with sock:
        process = _asked_to_leave(root, world, sock, runs, deadline)
    if process is not None:
        await_end(process, deadline)


def _asked_to_leave(root: Root, world: World, sock: socket.socket, runs: Runs, deadline: Deadline) -> Process | None:
    known = told_process(None, root, world, sock)
    try:
        answer: object = ask(sock, "daemon.shutdown", {"runs": runs, "reason": "upgrade"}, deadline)
    except Lost:
        answer = None
    except RpcError as exc:
        if exc.code != SHUTTING_DOWN:
            raise
        answer = exc.data.get("process")
    except BadAnswer:
        answer = None
    return answered_process(answer) or known

"""What a dead shim's children left running: found by proof, ended by pidfd, and never a process that is not proven to be the run's.

Proof is the run's id in the environment with which a process was executed, or a session that is proven: begun by a child on record
that still lives, or with a proven member in it. A pid on record proves nothing by itself: it may be another process by now.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterable

import anyio
import anyio.to_thread

from cueloop_daemon.runs.shim.autopsy import Born
from cueloop_daemon.runs.shim.processes import Process, Processes
from cueloop_protocol.identity import boot_id, send_signal
from cueloop_protocol.values import dataclass

TAG = "CUELOOP_RUN_ID"
LOOK = 0.05
"""Seconds between two looks."""
PATIENCE = 2.0
"""Seconds after the last signal before what is still there is reported instead of waited for."""


@dataclass(frozen=True, slots=True)
class Found:
    """`proven` are the run's; `suspects` sit in a session with the number of a dead child, which is no proof: they are named only.

    `sessions` are proven, and stay so as long as somebody of `proven` lives in them: a session's number is not used again before.
    """

    proven: tuple[Process, ...] = ()
    suspects: tuple[Process, ...] = ()
    sessions: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Swept:
    """What became of them: names with pids, for people. `left` could not be ended."""

    ended: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    suspects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sweep:
    """Which run is meant, whose processes count, and the processes there are. `own_pid` and its ancestors are never the run's."""

    run_id: str
    children: tuple[Born, ...]
    uid: int
    own_pid: int
    processes: Processes


NOBODY = Found()


def leftovers(sweep: Sweep, before: Found = NOBODY) -> Found:
    """Who is left now. `before` is an earlier look: who was proven then still is. Blocking; some milliseconds."""
    all_ = {one.pid: one for one in sweep.processes.of(sweep.uid)}
    spared = _line_of(sweep.own_pid, all_)
    entry = f"{TAG}={sweep.run_id}".encode()
    born = {one.pid: one.start for one in sweep.children}
    known = {(one.pid, one.start) for one in before.proven} | set(born.items())
    members = [one for one in all_.values() if (one.pid, one.start) in known]
    members += [one for one in all_.values() if one.pid not in spared and sweep.processes.has_variable(one.pid, entry)]
    pids = {one.pid for one in members}
    sessions = frozenset({one.session for one in members} & (pids | born.keys() | before.sessions))
    proven = [one for one in all_.values() if one.pid in pids or one.session in sessions]
    suspects = [one for one in all_.values() if one.session in born.keys() - all_.keys() - sessions and one.pid not in pids]
    return Found(_without(proven, spared), _without(suspects, spared), sessions)


async def end_leftovers(sweep: Sweep, grace: float) -> Swept:
    """INT, TERM halfway, KILL after `grace` seconds, looking anew all the time; returns when two looks found nobody.

    Takes at most `grace` and PATIENCE. Nobody there: returns after two looks.
    """
    seen: dict[tuple[int, str], Process] = {}
    begun = anyio.current_time()
    steps = [(0.0, signal.SIGINT), (grace / 2, signal.SIGTERM), (grace, signal.SIGKILL)]
    told: set[tuple[int, str, int]] = set()
    quiet = 0
    found = Found()
    while True:
        found = await anyio.to_thread.run_sync(leftovers, sweep, found)
        passed = anyio.current_time() - begun
        if not found.proven:
            quiet += 1
            if quiet == 2:
                return _swept(seen.values(), (), found.suspects)
            continue
        quiet = 0
        seen |= {(one.pid, one.start): one for one in found.proven}
        if passed >= grace + PATIENCE:
            return _swept(seen.values(), found.proven, found.suspects)
        number = [number for at, number in steps if passed >= at][-1]
        await anyio.to_thread.run_sync(_tell, found.proven, number, told)
        await anyio.sleep(LOOK)


def _tell(proven: Iterable[Process], number: signal.Signals, told: set[tuple[int, str, int]]) -> None:
    """Signal each once with each number; the stopped are woken, since they would not hear it before."""
    boot = boot_id()
    for one in proven:
        key = (one.pid, one.start, int(number))
        if key not in told:
            told.add(key)
            with contextlib.suppress(OSError):
                send_signal(one.pid, one.start, boot, number)
                send_signal(one.pid, one.start, boot, signal.SIGCONT)


def _line_of(pid: int, all_: dict[int, Process]) -> set[int]:
    """A process and its ancestors."""
    line: set[int] = set()
    while pid not in line:
        line.add(pid)
        if pid not in all_:
            break
        pid = all_[pid].parent
    return line


def _without(processes: Iterable[Process], spared: set[int]) -> tuple[Process, ...]:
    return tuple(sorted((one for one in processes if one.pid not in spared), key=lambda one: one.pid))


def _swept(seen: Iterable[Process], left: Iterable[Process], suspects: Iterable[Process]) -> Swept:
    still = {(one.pid, one.start) for one in left}
    ended = tuple(_text(one) for one in seen if (one.pid, one.start) not in still)
    return Swept(ended, tuple(map(_text, left)), tuple(map(_text, suspects)))


def _text(process: Process) -> str:
    """A program may name itself as it likes."""
    return f"{process.pid} {''.join(one if one.isprintable() else '?' for one in process.name)}"

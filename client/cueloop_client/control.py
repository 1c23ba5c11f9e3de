"""Starting and stopping the daemon by hand. Standard library only."""

from __future__ import annotations

from cueloop_client.again import leaving_process
from cueloop_client.exchange import ask, await_close
from cueloop_client.failures import BadAnswer, Failure, Lost, Silent
from cueloop_client.fast import answer_here
from cueloop_client.launch import launch
from cueloop_client.reach import Process, answered_process, is_awake, located_process, reach, told_process, why_no_daemon
from cueloop_client.shapes import text
from cueloop_client.successor import Replaced, Stayed, replace
from cueloop_client.waiting import await_end
from cueloop_protocol.codes import INVALID_PARAMS, LIMIT_EXCEEDED, METHOD_NOT_FOUND, SHUTTING_DOWN, VERSION_MISMATCH, RpcError
from cueloop_protocol.frozen import Frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

    from cueloop_client.context import Context
    from cueloop_client.successor import Runs
    from cueloop_client.world import Deadline

STOP_SECONDS = 20.0
"""A daemon leaves within its grace and two seconds, whatever hangs in it."""
TERM_SECONDS = 3.0
"""What one that has not left by then is given after a TERM, and again after a KILL."""
CANNOT_HEAR = frozenset({METHOD_NOT_FOUND, INVALID_PARAMS, VERSION_MISMATCH, LIMIT_EXCEEDED})
"""What a daemon says to `daemon.shutdown` that does not know it as we do, being of another version, or has no place for a caller."""


class Started(Frozen):
    """The daemon that runs now; `anew` if this call started it."""

    pid: int | None
    anew: bool


def start(context: Context) -> Started:
    """Have a daemon run, and try at once even if a start failed a moment ago. Raises Failure."""
    world, root = context.world, context.root()
    if (found := why_no_daemon(root)) is not None:
        raise Failure(*found, word="permission_denied")
    was_awake = is_awake(root, world)
    sock = reach(root, world, world.deadline(context.seconds))
    anew = sock is None or not was_awake
    with sock or launch(root, world, world.deadline(context.start_seconds), at_once=True) as connected:
        # A service manager takes connections whether or not the daemon can start: only an answer says that it did.
        has_to_say = sock is not None and not was_awake
        answer = ask(connected, "daemon.status", {}, world.deadline(context.start_seconds)) if has_to_say else None
        process = told_process(answer, root, world, connected)
    return Started(process.pid if process is not None else None, anew)


def restart(context: Context) -> Replaced:
    """Have this version's daemon run in the place of the one that runs, with no moment without one if that knows how.

    One that does not answer is ended first. Raises Failure (`Stayed`: it goes on) and RpcError (`run_active`).
    """
    world, root = context.world, context.root()
    if (found := why_no_daemon(root)) is not None:
        raise Failure(*found, word="permission_denied")
    before = located_process(root, world)
    try:
        sock, replaced = replace(root, world, world.deadline(context.start_seconds), runs_of(context))
    except Stayed as exc:
        if exc.why != "silent":
            raise
        if before is None:
            raise
        context.say(f"The daemon (process {before.pid}) does not answer; it is ended, and a new one is started.")
        _terminate(before)
        _see_off(context, before, world.deadline(TERM_SECONDS))
        sock, replaced = replace(root, world, world.deadline(context.start_seconds), runs_of(context))
    with sock:
        answer = ask(sock, "daemon.status", {}, world.deadline(context.start_seconds)) if replaced.how == "restart" else None
        # A successor has said who it is. Files may still name the one before: a full disk, or its last moment.
        now = told_process(answer, root, world, sock) if replaced.pid is None else None
    pid = replaced.pid if now is None else now.pid
    return Replaced(pid, "started" if before is None else replaced.how)


def stop(context: Context) -> Process | None:
    """Have no daemon run: returns when its process is gone, with what it was; None if none was there. Any version understands.

    One that neither answers nor goes by the deadline is ended by signals, which reach that process alone. A run's agents are not
    its children: they go on, and the next daemon finds them. Raises RpcError (`run_active`), and Silent if even that ends nothing.
    """
    world, root = context.world, context.root()
    deadline = world.deadline(context.seconds if context.values.has("timeout") else max(STOP_SECONDS, context.seconds))
    sock = reach(root, world, deadline, any_version=True, may_wake=False)
    if sock is None:
        process = located_process(root, world)
        if process is not None:  # it lost its socket; the signal means the same
            _terminate(process)
            _see_off(context, process, deadline)
        return process
    with sock:
        process = told_process(None, root, world, sock)
        try:
            process = _ask_to_leave(context, sock, process, deadline)
        except Silent:
            if process is None:
                raise
        if process is None:
            await_close(sock, deadline)
        else:
            _see_off(context, process, deadline)
    return process


def _see_off(context: Context, process: Process, deadline: Deadline) -> None:
    """Wait until the process has ended; from the deadline on, end it. Raises Silent, naming it, if nothing does."""
    from signal import SIGKILL, SIGTERM

    for number in (SIGTERM, SIGKILL):
        try:
            await_end(process, deadline)
            return
        except Silent:
            context.say(f"The daemon (process {process.pid}) does not leave; sending it {number.name}.")
            _send(process, number)
            deadline = context.world.deadline(TERM_SECONDS)
    await_end(process, deadline)


def _ask_to_leave(context: Context, sock: socket.socket, process: Process | None, deadline: Deadline) -> Process | None:
    """The process that leaves; `process` is what is known of it so far."""
    try:
        answer: object = ask(sock, "daemon.shutdown", {"runs": runs_of(context)}, deadline)
    except Lost:
        return process  # it went before its answer was out
    except RpcError as exc:
        if exc.code == SHUTTING_DOWN:
            return leaving_process(exc) or process
        if exc.code not in CANNOT_HEAR or process is None:
            raise
        if exc.code == LIMIT_EXCEEDED:
            _check_run(context, exc)
        _terminate(process)
        return process
    except BadAnswer:
        if process is None:
            raise
        _terminate(process)
        return process
    return answered_process(answer) or process


def _check_run(context: Context, why: RpcError) -> None:
    """A signal leaves runs alone. Raises Failure where there is one and that was not asked for."""
    if runs_of(context) == "leave":
        return
    active = answer_here(context, context.root(), "workspace.overview", {}).get("active_run")
    if isinstance(active, dict):
        run_id = text(active.get("run_id"))
        detail = f"Run {run_id} is active, and goes on without its daemon: cueloop daemon stop --leave-runs"
        raise Failure(why.message, detail, word="resource_busy")


def runs_of(context: Context) -> Runs:
    """What is to become of an active run, as the command line says."""
    return "cancel" if context.values.has("cancel-runs") else "leave" if context.values.has("leave-runs") else "refuse"


def _terminate(process: Process) -> None:
    from signal import SIGTERM

    _send(process, SIGTERM)


def _send(process: Process, number: int) -> None:
    from cueloop_protocol.identity import send_signal

    send_signal(process.pid, process.start_time, process.boot_id, number)

"""The daemon's command. Takes the repository's lock with the standard library alone, and imports the rest only as its owner."""

from __future__ import annotations

import argparse
import gc
import json
import os
import pwd
import sys
import time

from cueloop_daemon.lean import import_libraries
from cueloop_daemon.service.activation import NotOurSocket, take_socket
from cueloop_daemon.service.keeper import Keeper
from cueloop_daemon.service.notify import Notifier
from cueloop_daemon.service.origin import own_environment, read_origin
from cueloop_daemon.service.standing import managed_socket
from cueloop_daemon.store.not_writable import NotWritable
from cueloop_daemon.store.ownership import AlreadyOwned, Ownership
from cueloop_protocol.codes import error_document
from cueloop_protocol.place import PlaceError, root_hash, runtime_folders
from cueloop_protocol.roots import Root, RootError, open_root
from cueloop_protocol.streams import hold_standard_streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_daemon.takeover import Asked, Inheritance, Stays
    from cueloop_daemon.takeover.bequest import Bequest
    from cueloop_daemon.takeover.succession import Runs
    from cueloop_daemon.workspace.workspace import Caches

OWNED_BY_ANOTHER = 3
"""Exit code of a daemon that found the repository owned; the pid of the owner was printed."""
OWNER_STAYS = 4
"""Exit code of a daemon that was to take over, and the one that runs stays; the reason was printed."""
BROKEN = 70
"""Exit code of a start that failed for no reason that was foreseen, under a service manager, which tries again."""
PACKAGES = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""The folder that the installed packages are in."""


class Ready:
    """The starter's end of a pipe: one JSON line, then it is closed. Without a pipe, people read standard error."""

    def __init__(self, fd: int | None) -> None:
        self._fd = fd

    def say(self, **message: object) -> None:
        """Tell the starter, once; later calls do nothing. A starter that has gone is no error."""
        fd, self._fd = self._fd, None
        if fd is None:
            return
        try:
            os.write(fd, json.dumps(message).encode() + b"\n")
        except OSError:
            pass
        finally:
            os.close(fd)


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """The parsed command line; exits with 2 and prose for a wrong one."""
    parser = argparse.ArgumentParser(
        prog="cueloopd",
        description="The session daemon of CueLoop for one repository, in the foreground. `cueloop` starts it when needed.",
        epilog="example: cueloopd --root ~/code/app",
    )
    parser.add_argument("--root", metavar="PATH", default=".", help="the repository (default: the working directory)")
    parser.add_argument("--ready-fd", metavar="N", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--take-over", metavar="RUNS", choices=("refuse", "leave", "cancel"), help=argparse.SUPPRESS)
    parser.add_argument("--version", action="store_true", help="print the version and what it was built from, and exit")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Run the daemon until it leaves. 0: it left as it should; 1: it could not start; 3: the repository has a daemon already."""
    hold_standard_streams()
    asked = arguments(argv)
    if asked.version:
        print(version_line())
        return 0
    ready = Ready(asked.ready_fd)
    if asked.ready_fd is not None:
        os.set_inheritable(asked.ready_fd, False)
    keeper = _keeper(has_starter=asked.ready_fd is not None)
    inheritance: Inheritance | None = None
    ownership: Ownership | AlreadyOwned | None = None
    caches: Caches | None = None
    try:
        root = open_root(asked.root)
        # A daemon must not hold the folder it was started in, nor die with it.
        os.chdir("/")
        keeper = Keeper(keeper.origin, take_socket(keeper.origin, root, os.getuid()), keeper.notifier)
        if asked.take_over is not None:
            from cueloop_daemon.takeover import Inheritance, Stays

            found, caches = _take_over(root, asked.take_over)
            if isinstance(found, Stays):
                return _owner_stays(ready, root, found)
            if isinstance(found, Inheritance):
                inheritance, ownership = found, Ownership.inherit(root, found.inner, found.local, os.getuid())
        if ownership is None:
            if inheritance is not None:
                inheritance.decline()
            inheritance, ownership = None, Ownership.acquire(root, os.getuid())
            if isinstance(ownership, AlreadyOwned) and asked.take_over is not None:
                from cueloop_daemon.takeover import acquire_soon

                ownership = acquire_soon(root, os.getuid(), ownership)
            if isinstance(ownership, AlreadyOwned) and keeper.activated is not None:
                from cueloop_daemon.service.standby import await_ownership

                ownership = await_ownership(root, os.getuid(), keeper, ownership)
    except (RootError, PlaceError, NotWritable, NotProven, NotOurSocket) as exc:
        return _refuse(ready, exc, keeper)
    if isinstance(ownership, AlreadyOwned):
        who = "another process" if ownership.pid is None else f"pid {ownership.pid}"
        ready.say(owned={"pid": ownership.pid})
        print(f"cueloopd: {root.path} already has a daemon ({who}).", file=sys.stderr)
        return OWNED_BY_ANOTHER
    if keeper.activated is None and inheritance is None:
        # It was nobody's, and a daemon listens no longer than it owns: who listens all the same is a service manager.
        standing = managed_socket(root, os.environ, os.getuid())
        if standing is not None:
            return _leave_to_manager(root, ownership, ready, standing)
    try:
        left = _serve(root, ownership, ready, inheritance, caches, keeper)
    finally:
        ownership.release(*(f"{folder}/{root_hash(root)}" for folder in runtime_folders(os.environ, os.getuid())))
    # Only now, as nobody's daemon: who waits at a manager's socket is told for some seconds yet.
    return left if isinstance(left, int) else _refuse(ready, left, keeper)


def _keeper(*, has_starter: bool) -> Keeper:
    """Who started us; from here on the environment is our own, whoever that was."""
    origin = read_origin(os.environ, os.getpid(), has_starter=has_starter)
    try:
        entry = pwd.getpwuid(os.getuid())
        home, user = entry.pw_dir, entry.pw_name
    except KeyError:
        home, user = "/", None
    own = own_environment(os.environ, home, user, PACKAGES)
    os.environ.clear()
    os.environ.update(own)
    if origin.is_managed:
        import faulthandler

        faulthandler.enable()  # a watchdog's SIGABRT leaves in the journal where we hung
    return Keeper(origin, None, Notifier(origin.notify, time.monotonic))


def _leave_to_manager(root: Root, ownership: Ownership, ready: Ready, socket: str) -> int:
    """We have just called it: its own daemon starts, and gets the repository when we have let it go."""
    ownership.release()
    ready.say(managed={"socket": socket})
    print(f"cueloopd: a service manager listens for {root.path}, and starts the daemon itself.", file=sys.stderr)
    return 0


class Broken(Exception):
    """This installation, or a disk under it, is not in order."""

    code = "unknown"
    remedy = "The journal has the details: cueloop service logs"


class NotProven(Exception):
    """The start would fail; the fields are those of `app.StartFailed`, which is imported late."""

    def __init__(self, exc: Exception) -> None:
        super().__init__(str(exc))
        self.remedy = getattr(exc, "remedy", None)
        self.code = getattr(exc, "code", "unknown")


def _take_over(root: Root, runs: Runs) -> tuple[Asked, Caches]:
    """Ask the owner for its place, once all that can fail without it has not, and all files are read. PlaceError, NotProven."""
    gc.disable()  # see `_serve`
    import_libraries()
    from cueloop_daemon.app import StartFailed, prove
    from cueloop_daemon.takeover import Inheritance, ask
    from cueloop_daemon.takeover.ours import this_version

    try:
        caches = prove(root, dict(os.environ), pwd.getpwuid(os.getuid()).pw_dir, os.getuid())
    except StartFailed as exc:
        raise NotProven(exc) from exc
    found = ask(root, os.getuid(), os.environ, this_version(runs))
    if isinstance(found, Inheritance):
        found.await_files()
    return found, caches


def _owner_stays(ready: Ready, root: Root, found: Stays) -> int:
    ready.say(stays={"why": found.why, "pid": found.pid, "error": found.error})
    print(f"cueloopd: the daemon of {root.path} stays: {found.error['message']}", file=sys.stderr)
    return OWNER_STAYS


def version_line() -> str:
    """The version and what it was built from."""
    from cueloop_protocol.build import build
    from cueloop_protocol.shapes import PROTOCOL_VERSION

    return f"cueloopd {build().line(PROTOCOL_VERSION)}"


def _serve(
    root: Root, ownership: Ownership, ready: Ready, inheritance: Inheritance | None, caches: Caches | None, keeper: Keeper
) -> int | Exception:
    """The exit code, or why it could not start."""
    # What is made while starting lives as long as the daemon: walking it again and again is a tenth of the start.
    gc.disable()
    try:
        return _serve_as(root, ownership, ready, inheritance, caches, keeper)
    except Exception as exc:
        if keeper.activated is None:
            raise
        sys.excepthook(type(exc), exc, exc.__traceback__)
        return Broken(f"the daemon broke down: {type(exc).__name__}")


def _serve_as(
    root: Root, ownership: Ownership, ready: Ready, inheritance: Inheritance | None, caches: Caches | None, keeper: Keeper
) -> int | Exception:
    import_libraries()
    from cueloop_daemon.app import StartFailed, run_daemon

    try:
        home = pwd.getpwuid(os.getuid()).pw_dir
        environ = dict(os.environ)
        left = run_daemon(root, ownership, environ, home, ready.say, inheritance=inheritance, caches=caches, keeper=keeper)
    except (PlaceError, NotWritable, StartFailed) as exc:
        return exc
    finally:
        gc.enable()
    return 0 if left.bequest is None else _see_off(left.bequest, ownership, left.is_closed)


def _see_off(bequest: Bequest, ownership: Ownership, is_closed: bool) -> int:
    """The last thing that an owner with an heir does. It stays until that serves, as who waits must not be lost with it."""
    from cueloop_daemon.takeover.bequest import SERVING_SECONDS
    from cueloop_daemon.takeover.overdue import end_by, give_up
    from cueloop_daemon.takeover.probes import reached

    if not is_closed:
        give_up()  # the heir opens our files when this process is gone, and not before
    reached("closed")
    end_by(SERVING_SECONDS * 2)
    if bequest.see_off():
        reached("seen_off")
        ownership.hand_on()
        return 0
    bequest.turn_back()
    return 1


def _refuse(ready: Ready, exc: Exception, keeper: Keeper) -> int:
    word = getattr(exc, "code", "unknown")
    remedy = getattr(exc, "remedy", None)
    message = str(exc)
    message = message[:1].upper() + message[1:]
    ready.say(error=error_document(word if isinstance(word, str) else "unknown", message, remedy))
    print(f"cueloopd: {message}{f' {remedy}' if remedy else ''}", file=sys.stderr, flush=True)
    listening = exc.listening if isinstance(exc, NotOurSocket) else keeper.sockets()
    if listening:
        from cueloop_daemon.service.waiting import refuse_all

        refuse_all(listening, message, word if isinstance(word, str) else "unknown", remedy, keeper.origin.name)
    return BROKEN if isinstance(exc, Broken) else 1


if __name__ == "__main__":
    sys.exit(main())

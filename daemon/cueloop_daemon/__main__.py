"""The daemon's command. Takes the repository's lock with the standard library alone, and imports the rest only as its owner."""

from __future__ import annotations

import argparse
import gc
import json
import os
import pwd
import sys

from cueloop_daemon.store.not_writable import NotWritable
from cueloop_daemon.store.ownership import AlreadyOwned, Ownership
from cueloop_protocol.codes import error_document
from cueloop_protocol.place import PlaceError, root_hash, runtime_folders
from cueloop_protocol.roots import Root, RootError, open_root

OWNED_BY_ANOTHER = 3
"""Exit code of a daemon that found the repository owned; the pid of the owner was printed."""


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
    parser.add_argument("--version", action="store_true", help="print the version and what it was built from, and exit")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Run the daemon until it leaves. 0: it left as it should; 1: it could not start; 3: the repository has a daemon already."""
    asked = arguments(argv)
    if asked.version:
        print(version_line())
        return 0
    ready = Ready(asked.ready_fd)
    if asked.ready_fd is not None:
        os.set_inheritable(asked.ready_fd, False)
    try:
        root = open_root(asked.root)
        # A daemon must not hold the folder it was started in, nor die with it.
        os.chdir("/")
        ownership = Ownership.acquire(root, os.getuid())
    except (RootError, PlaceError, NotWritable) as exc:
        return _refuse(ready, exc)
    if isinstance(ownership, AlreadyOwned):
        who = "another process" if ownership.pid is None else f"pid {ownership.pid}"
        ready.say(owned={"pid": ownership.pid})
        print(f"cueloopd: {root.path} already has a daemon ({who}).", file=sys.stderr)
        return OWNED_BY_ANOTHER
    try:
        return _serve(root, ownership, ready)
    finally:
        ownership.release(*(f"{folder}/{root_hash(root)}" for folder in runtime_folders(os.environ, os.getuid())))


def version_line() -> str:
    """The version and what it was built from."""
    from cueloop_protocol.build import build
    from cueloop_protocol.shapes import PROTOCOL_VERSION

    return f"cueloopd {build().line(PROTOCOL_VERSION)}"


def _serve(root: Root, ownership: Ownership, ready: Ready) -> int:
    # What is made while starting lives as long as the daemon: walking it again and again is a tenth of the start.
    gc.disable()
    from cueloop_daemon.app import StartFailed, run_daemon

    try:
        run_daemon(root, ownership, dict(os.environ), pwd.getpwuid(os.getuid()).pw_dir, ready.say)
    except (PlaceError, NotWritable, StartFailed) as exc:
        return _refuse(ready, exc)
    finally:
        gc.enable()
    return 0


def _refuse(ready: Ready, exc: Exception) -> int:
    word = getattr(exc, "code", "unknown")
    remedy = getattr(exc, "remedy", None)
    message = str(exc)
    message = message[:1].upper() + message[1:]
    ready.say(error=error_document(word if isinstance(word, str) else "unknown", message, remedy))
    print(f"cueloopd: {message}{f' {remedy}' if remedy else ''}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())

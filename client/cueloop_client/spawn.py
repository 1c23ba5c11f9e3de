"""One start of the daemon's process, and what it says on its ready pipe. Standard library only."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from threading import Thread

from cueloop_client.failures import StartFailed
from cueloop_protocol.frozen import Frozen
from cueloop_protocol.roots import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from cueloop_client.world import Deadline, World
    from cueloop_protocol.roots import Root

LINE_LIMIT = 64 * 1024
LAST_WORDS = 2000
"""Bytes of its standard error that are shown when it died."""
KEPT = ("PATH", "XDG_RUNTIME_DIR", "TMPDIR")
"""What the daemon takes over from whoever starts it: where programs are (git), and where its socket goes."""
PACKAGES = os.path.dirname(os.path.dirname(__file__))
"""The folder that the installed packages are in."""


class Ready(Frozen):
    """It serves its socket."""

    socket: str
    pid: int


class Owned(Frozen):
    """Another daemon owns the repository; `pid` is for people."""

    pid: int | None


class Refused(Frozen):
    """It could not start and says why; the fields are those of an error document."""

    word: str
    message: str
    detail: str | None


class Died(Frozen):
    """It ended without a word on the pipe. `ending`: exit code or signal; `last_words`: the end of its standard error."""

    ending: str
    last_words: str


class Managed(Frozen):
    """It left the start to a service manager, which listens at that path and has been called."""

    socket: str


class Stays(Frozen):
    """It was to take over, and the daemon that runs stays: `why` as `cueloop_daemon.takeover` has it, the rest for people."""

    why: str
    pid: int | None
    word: str
    message: str
    detail: str | None


class Unready(Frozen):
    """It has not said anything yet and goes on starting."""

    pid: int


Outcome = Ready | Owned | Managed | Stays | Refused | Died | Unready


def spawn(root: Root, world: World, stderr_path: str, deadline: Deadline, *, take_over: str | None = None) -> Outcome:
    """Start a daemon for the root, detached from us and our terminal, and wait for its one line, its end or the deadline.

    `take_over`: it asks the one that runs for its place; what is to become of a run. Raises StartFailed if no process can be
    started at all.
    """
    reading, writing = os.pipe()
    try:
        try:
            process = _popen(root, world, stderr_path, writing, () if take_over is None else ("--take-over", take_over))
        finally:
            os.close(writing)
        line = _first_line(reading, deadline)
        if line is None:
            _reap_later(process)
            return Unready(process.pid)
        outcome = parse_line(line, process.pid)
        if outcome is None:
            return _death(process, stderr_path, line, deadline)
        _reap_later(process)
        return outcome
    finally:
        os.close(reading)


def command_line(root: Root, ready_fd: int) -> list[str]:
    """The daemon's command: this interpreter, the working directory not on its path, user packages only where we have them."""
    flags = ["-P", *(["-s"] if sys.flags.no_user_site else [])]
    return [sys.executable, *flags, "-m", "cueloop_daemon", "--root", root.path, "--ready-fd", str(ready_fd)]


def environment(environ: Mapping[str, str], passwd_home: str, user: str | None) -> dict[str, str]:
    """The daemon's environment: the same whoever starts it, since it outlives that caller and serves others.

    An agent's markers, a shell's secrets and another home never get in; whose configuration counts is said with each request.
    """
    fixed = {"HOME": passwd_home, "LANG": "C.UTF-8"}
    if user is not None:
        fixed |= {"USER": user, "LOGNAME": user}
    return fixed | {name: environ[name] for name in KEPT if environ.get(name)} | finders(environ, PACKAGES)


def finders(environ: Mapping[str, str], packages: str) -> dict[str, str]:
    """What of the caller's environment makes Python find the packages in that folder; empty where it finds them by itself.

    A PYTHONPATH that was set for something else stays out of the daemon.
    """
    found: dict[str, str] = {}
    path = [os.path.realpath(folder) for folder in environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    if os.path.realpath(packages) in path:
        found["PYTHONPATH"] = os.pathsep.join(path)
    base = environ.get("PYTHONUSERBASE", "")
    if base and os.path.realpath(packages).startswith(os.path.realpath(base) + os.sep):
        found["PYTHONUSERBASE"] = os.path.realpath(base)
    return found


def parse_line(line: bytes, pid: int) -> Outcome | None:
    """What the ready line says; None if it is none of the four."""
    try:
        message: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    match message:
        case {"ready": {"socket": str(path), **rest}}:
            told = rest.get("pid")
            return Ready(path, told if isinstance(told, int) else pid)
        case {"owned": {**owned}}:
            owner = owned.get("pid")
            return Owned(owner if isinstance(owner, int) else None)
        case {"managed": {"socket": str(path)}}:
            return Managed(path)
        case {"stays": {"why": str(why), "error": {"code": str(word), "message": str(text), **rest}, **owned}}:
            owner, detail = owned.get("pid"), rest.get("detail")
            return Stays(why, owner if isinstance(owner, int) else None, word, text, detail if isinstance(detail, str) else None)
        case {"error": {"code": str(word), "message": str(text), **rest}}:
            from cueloop_protocol.codes import DOCUMENT_CODES

            detail = rest.get("detail")
            return Refused(word if word in DOCUMENT_CODES else "unknown", text, detail if isinstance(detail, str) else None)
    return None


def _popen(root: Root, world: World, stderr_path: str, ready_fd: int, more: tuple[str, ...]) -> subprocess.Popen[bytes]:
    if not sys.executable:
        raise StartFailed("The daemon cannot be started: this Python does not know its own path.")
    try:
        # Appending, so that a daemon that still has the file open does not leave a hole behind what a later start empties.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        log = os.open(stderr_path, flags, 0o600)
    except OSError as exc:
        raise StartFailed(f"The daemon cannot be started: {stderr_path} cannot be written ({exc.strerror}).") from exc
    try:
        return subprocess.Popen(
            [*command_line(root, ready_fd), *more],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=environment(world.environ, world.passwd_home(), world.passwd_name()),
            pass_fds=(ready_fd,),
            start_new_session=True,
        )
    except OSError as exc:
        raise StartFailed(f"The daemon cannot be started: {exc.strerror} ({shown(sys.executable)}).") from exc
    finally:
        os.close(log)


def _first_line(fd: int, deadline: Deadline) -> bytes | None:
    """The line, or what came before the pipe's end or the limit; None if the deadline came first."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    data = b""
    while b"\n" not in data and len(data) < LINE_LIMIT:
        if not poll.poll(deadline.left() * 1000):
            return None
        piece = os.read(fd, LINE_LIMIT)
        if not piece:
            break
        data += piece
    return data.partition(b"\n")[0]


def _death(process: subprocess.Popen[bytes], stderr_path: str, line: bytes, deadline: Deadline) -> Died:
    try:
        code = process.wait(max(deadline.left(), 0.1))
    except subprocess.TimeoutExpired:
        _reap_later(process)
        return Died("it closed its ready pipe and goes on", last_words(stderr_path))
    ending = f"exit code {code}" if code >= 0 else f"signal {-code}"
    said = last_words(stderr_path)
    return Died(ending, f"{said}\n{shown(os.fsdecode(line[:LAST_WORDS]))}".strip())


def last_words(path: str) -> str:
    """The last lines of the file, without control characters; empty if there are none."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LAST_WORDS))
            text = file.read(LAST_WORDS).decode("utf-8", "replace").strip()
    except OSError:
        return ""
    return "\n".join("".join(c if c.isprintable() else " " for c in line).rstrip() for line in text.splitlines()[-12:])


def _reap_later(process: subprocess.Popen[bytes]) -> None:
    """A daemon that ends while its starter still lives must not stay behind as a zombie."""
    Thread(target=process.wait, daemon=True).start()

"""Making sure that a run has its shim: started if there never was one, found if there is, and gone if there was.

No pid is needed: whoever holds the lock of the run's folder is its shim. Starting one is idempotent, since a second leaves at once.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import threading
from collections.abc import Callable, Mapping
from typing import Literal

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from pydantic import BaseModel, ConfigDict, ValidationError

from cueloop_daemon.runs.shim.channel import NoShim, Turned, find_channel
from cueloop_daemon.runs.shim.conversation import FIRST_PAUSE, LONGEST_PAUSE
from cueloop_daemon.runs.shim.folder import Folder
from cueloop_daemon.runs.shim.hearing import Fenced, Hearing
from cueloop_daemon.runs.shim.holder import Judge
from cueloop_daemon.runs.shim.link import Peer, ShimLink
from cueloop_daemon.shim.command import command_line
from cueloop_daemon.shim.spec import RunSpec
from cueloop_daemon.shim.wire import PROTOCOL
from cueloop_daemon.store.not_writable import not_writable
from cueloop_protocol.place import local_folder, root_hash
from cueloop_protocol.roots import Root, shown
from cueloop_protocol.values import dataclass

PATIENCE = 10.0
"""Seconds for a shim to be started, or found and talked to."""
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
"""The shim's own; it executes nothing by name."""
_LOG = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class ShimUnreachable(Exception):
    """The run's shim lives, and cannot be talked to; it may later. `str()` says why."""


class ShimFailed(Exception):
    """A shim was started and gave up; `str()` is fit for people."""


@dataclass(frozen=True, slots=True)
class Gone:
    """The run had its shim, and has it no more. `why`: it died, the machine was booted since, or the run has been settled."""

    why: Literal["died", "rebooted", "over"]


@dataclass(frozen=True, slots=True)
class ShimSpec:
    """What a shim is started with. `boot` is that of the run's beginning, `boot_now` today's.

    `executable` is a Python interpreter, `daemon_argv` (absolute program) and `daemon_env` bring a daemon back; `budget` in bytes of
    output for the whole run, `grace` in seconds. `generation`: of all daemons that talk to the shim, the highest counts.
    """

    root: Root
    boot: str
    boot_now: str
    generation: int
    executable: str
    daemon_argv: tuple[str, ...]
    daemon_env: Mapping[str, str]
    judge: Judge
    hear: Callable[[Hearing], None]
    budget: int = 256 * 1024 * 1024
    grace: float = 5.0


class _Ready(BaseModel):
    """The one line of a new shim; exactly one of its fields is there."""

    model_config = ConfigDict(frozen=True)

    ready: dict[str, object] | None = None
    held: bool = False
    over: bool = False
    error: _Error | None = None


class _Error(BaseModel):
    model_config = ConfigDict(frozen=True)

    errno: int
    where: str


async def ensure_shim(tasks: TaskGroup, folder: Folder, spec: ShimSpec) -> ShimLink | Gone:
    """A link to the run's shim, kept up in `tasks`; Gone if it had one and has it no more.

    Raises NotWritable and ShimFailed where none could be started, ShimUnreachable after ten seconds in vain (call again), and Fenced
    where a later daemon has it.
    """
    pause, why = FIRST_PAUSE, "it said nothing"
    with anyio.move_on_after(PATIENCE):
        while True:
            try:
                gone = await _start_or_gone(folder, spec)
            except OSError as exc:
                raise not_writable(exc, shown(folder.path), "start the run's shim in") from exc
            if gone is not None:
                return gone
            try:
                channel = await find_channel(folder, spec.generation)
            except (NoShim, OSError) as exc:
                why = str(exc)
            except Turned as exc:
                if exc.why == "fenced":
                    raise Fenced from exc
                raise ShimUnreachable(f"it refuses this daemon ({exc.why})") from exc
            else:
                link = ShimLink(Peer(folder, spec.generation, spec.judge), channel, spec.hear)
                tasks.start_soon(link.run)
                return link
            await anyio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
    raise ShimUnreachable(why)


def socket_path(root: Root, run_id: str, uid: int) -> str:
    """Where the run's shim listens: in `/tmp`, since a session's runtime folder may vanish at its end."""
    return f"{local_folder(uid)}/{root_hash(root)}-{hashlib.sha256(run_id.encode()).hexdigest()[:16]}.sock"


async def _start_or_gone(folder: Folder, spec: ShimSpec) -> Gone | None:
    """None: there is a shim, or there is about to be one. Raises OSError, NotWritable, ShimFailed."""
    found = await anyio.to_thread.run_sync(_found_or_begun, folder, spec)
    return await _heard(folder, found) if isinstance(found, int) else found


def _found_or_begun(folder: Folder, spec: ShimSpec) -> Gone | int | None:
    """None: there is a shim. An int: one was started, which says so on this pipe. Blocking. Raises OSError, NotWritable."""
    if folder.is_held():
        return None
    if spec.boot != spec.boot_now:
        return Gone("rebooted")
    if folder.is_buried():
        return Gone("over")
    if folder.was_there():
        # A shim that was just starting may have had the lock since it was looked at.
        return None if folder.is_held() else Gone("died")
    return _popen(folder, spec)


async def _heard(folder: Folder, ready: int) -> Gone | None:
    """Hear whether the new shim is ready."""
    try:
        line = await _read_line(ready)
    finally:
        os.close(ready)
    if not line:
        raise ShimFailed(f"The run's shim died at its start. {folder.log_tail()}".strip())
    try:
        said = _Ready.model_validate_json(line)
    except ValidationError as exc:
        raise ShimFailed(f"The run's shim said something else than that it is ready: {shown(repr(line[:200]))}") from exc
    if said.error is not None:
        failure = OSError(said.error.errno, os.strerror(said.error.errno))
        raise not_writable(failure, shown(folder.path), f"start a shim ({said.error.where}) in")
    return Gone("over") if said.over else None


def _popen(folder: Folder, spec: ShimSpec) -> int:
    """Start a shim; the reading end of its ready pipe. Raises OSError, NotWritable."""
    folder.write_run(_run_spec(folder, spec))
    with contextlib.ExitStack() as fds:
        root = _closing(fds, os.open(spec.root.base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        log = _closing(fds, os.open("shim.log", _LOG, 0o600, dir_fd=folder.fd))
        reading, writing = os.pipe2(os.O_CLOEXEC)
        _closing(fds, writing)
        try:
            process = subprocess.Popen(
                command_line(spec.executable, root, folder.fd, writing),
                pass_fds=(root, folder.fd, writing),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=ENVIRONMENT,
                cwd="/",
                start_new_session=True,
            )
        except BaseException:
            os.close(reading)
            raise
    # It outlives this daemon; if it does not, a zombie would be in the way of telling that it is gone.
    threading.Thread(target=process.wait, name="shim", daemon=True).start()
    return reading


def _closing(fds: contextlib.ExitStack, fd: int) -> int:
    fds.callback(os.close, fd)
    return fd


def _run_spec(folder: Folder, spec: ShimSpec) -> RunSpec:
    return RunSpec(
        run_id=folder.run_id,
        protocol=PROTOCOL,
        root=spec.root.path,
        socket=socket_path(spec.root, folder.run_id, folder.uid),
        daemon_argv=spec.daemon_argv,
        daemon_env=dict(spec.daemon_env),
        budget=spec.budget,
        grace=spec.grace,
    )


async def _read_line(fd: int) -> bytes:
    """Up to the line feed, or the end."""
    data = b""
    while not data.endswith(b"\n"):
        await anyio.wait_readable(fd)
        piece = os.read(fd, 4096)
        if not piece:
            break
        data += piece
    return data

"""From an order's file to a child behind its gate. Standard library only."""

from __future__ import annotations

import errno
import os
import stat

from cueloop_daemon.shim.child import Command, Gated, StartFailed, fork_gated
from cueloop_daemon.shim.spec import LIMIT, OrderSpec, SpecError, parse_order
from cueloop_protocol.frozen import Frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_daemon.shim.spec import RunSpec

RUN_ID = "CUELOOP_RUN_ID"
"""The variable by which a run's processes are known after their shim's death; set for every child, whatever its order says."""


class Place(Frozen):
    """Where a run is: its words, descriptors of root, folder and lock file, and the umask that children get."""

    spec: RunSpec
    root: int
    folder: int
    lock: int
    umask: int


def read_order(place: Place, n: int) -> OrderSpec:
    """The order of this number. Raises StartFailed(order)."""
    try:
        return parse_order(read_file(place.folder, f"{n}.order"))
    except OSError as exc:
        raise StartFailed("order", exc.errno or 0) from exc
    except SpecError as exc:
        raise StartFailed("order", errno.EINVAL) from exc


def launch(place: Place, order: OrderSpec) -> Gated:
    """A child for the order that waits for its gate to be opened. Raises StartFailed(cwd, open or fork)."""
    if not is_root_there(place):
        raise StartFailed("cwd", errno.ENOENT)
    try:
        stdin = _open_stdin(place.folder, order.stdin)
    except OSError as exc:
        raise StartFailed("open", exc.errno or 0) from exc
    env = order.env | {RUN_ID: place.spec.run_id}  # nothing of the shim's own environment gets in
    try:
        return fork_gated(Command(order.argv, env, stdin, place.root, place.umask), place.lock)
    finally:
        os.close(stdin)


def is_root_there(place: Place) -> bool:
    """Whether the root's path still names the folder that this run is about. A path that no call takes is believed while it exists."""
    status = os.fstat(place.root)
    try:
        return os.path.samestat(os.stat(place.spec.root), status)
    except OSError as exc:
        return exc.errno == errno.ENAMETOOLONG and status.st_nlink > 0


def exists(folder: int, name: str) -> bool:
    """Whether the name is there, whatever it is."""
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def read_file(folder: int, name: str) -> bytes:
    """A plain file of the daemon's. Raises OSError, also for what is too long or no plain file."""
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > LIMIT:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), name)
        pieces = []
        while piece := os.read(fd, LIMIT):
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        os.close(fd)


def _open_stdin(folder: int, name: str | None) -> int:
    """A file is read to its end and then ends, whoever else is there; nothing has to be fed to it."""
    if name is None:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), name)
    os.set_blocking(fd, True)
    return fd

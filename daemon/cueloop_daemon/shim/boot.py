"""Where the shim's process begins: one for each run, decided by a lock. Standard library only.

Whoever holds the `flock` on `shim.lock` in the run's folder is the run's shim; a second one leaves before it has done anything. A
tombstone in the folder says that the run is settled: it is looked for under the lock, since whoever settles leaves it under the lock.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys

from cueloop_daemon.shim.kin import be_subreaper
from cueloop_daemon.shim.launch import Place, exists, read_file
from cueloop_daemon.shim.lean import dumps
from cueloop_daemon.shim.main import Shim
from cueloop_daemon.shim.spec import LOCK_FILE, RUN_FILE, SHIM_FILE, TOMBSTONE, SpecError, parse_run
from cueloop_daemon.shim.wire import PROTOCOL
from cueloop_protocol.identity import boot_id, process_start_time


class BootFailed(Exception):
    """It cannot be a shim: `where` is the step, `errno` the system's number."""

    def __init__(self, where: str, number: int) -> None:
        super().__init__(f"{where}: {os.strerror(number)}")
        self.where = where
        self.errno = number


def main(argv: list[str]) -> int:
    """Be the shim of a run. `argv`: the descriptors of root, run's folder and ready pipe."""
    root, folder, ready = (int(one) for one in argv)
    for fd in (root, folder, ready):
        os.set_inheritable(fd, False)
    os.chdir("/")
    umask = os.umask(0o077)
    try:
        lock = _lock(folder)
        if lock is None:
            return _say(ready, {"held": True})
        if exists(folder, TOMBSTONE):
            return _say(ready, {"over": True})
        shim, told = _prepare(root, folder, lock, umask)
    except BootFailed as exc:
        print(f"shim: {exc}", file=sys.stderr)
        _say(ready, {"error": {"errno": exc.errno, "where": exc.where}})
        return 1
    _say(ready, {"ready": told})
    shim.run()
    return 0


def _lock(folder: int) -> int | None:
    """The lock's descriptor, None if another shim has it. Raises BootFailed."""
    try:
        while True:
            fd = os.open(LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
                return None
            if os.path.samestat(os.stat(LOCK_FILE, dir_fd=folder, follow_symlinks=False), os.fstat(fd)):
                return fd
            os.close(fd)  # what we locked was replaced meanwhile: that lock would hold nobody off
    except OSError as exc:
        raise BootFailed("lock", exc.errno or 0) from exc


def _prepare(root: int, folder: int, lock: int, umask: int) -> tuple[Shim, dict[str, object]]:
    """A shim that listens and is found by its file. Raises BootFailed."""
    where = "run"
    try:
        spec = parse_run(read_file(folder, RUN_FILE))
        where = "subreaper"
        be_subreaper(True)
        up: dict[str, object] = {"pid": os.getpid(), "start": process_start_time(os.getpid()), "boot": boot_id()}
        where = "record"
        shim = Shim(Place(spec, root, folder, lock, umask), up)
        where = "socket"
        shim.door.open()
        where = "file"
        told = {**up, "protocol": PROTOCOL, "socket": spec.socket}
        _publish(folder, told)
    except SpecError as exc:
        print(f"shim: {RUN_FILE}: {exc}", file=sys.stderr)
        raise BootFailed(where, errno.EINVAL) from exc
    except OSError as exc:
        raise BootFailed(where, exc.errno or 0) from exc
    return shim, told


def _publish(folder: int, told: dict[str, object]) -> None:
    temp = f"{SHIM_FILE}.new"
    fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        os.write(fd, dumps(told) + b"\n")
    finally:
        os.close(fd)
    os.rename(temp, SHIM_FILE, src_dir_fd=folder, dst_dir_fd=folder)


def _say(ready: int, message: dict[str, object]) -> int:
    """Tell whoever started us; one that has gone is no error, since the next finds us by the file."""
    try:
        os.write(ready, dumps(message) + b"\n")
    except OSError:
        pass
    finally:
        os.close(ready)
    return 0

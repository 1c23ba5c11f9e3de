"""Who owns a repository: two locks held for life (design section 4, "Exactly one daemon"). Standard library only.

The lock in the repository does not depend on anybody's environment; the one in `/tmp` outlives a deleted cache folder and decides
where the repository's file system cannot lock.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os

from cueloop_daemon.store.lockfile import HeldBy, LockFile, adopt_lock, take_lock
from cueloop_protocol.folders import open_folder
from cueloop_protocol.frozen import Frozen
from cueloop_protocol.identity import process_start_time
from cueloop_protocol.place import FOLDER, PlaceError, ensure_private_folder, local_folder, local_lock_path
from cueloop_protocol.roots import Root, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_daemon.store.lockfile import Flock

LOCK = "lock"
LOCK_ENDING = ".lock"
STARTERS = (".start", ".stderr", ".heir.stderr")
"""Endings of what a starter makes beside the local lock: its own lock, and where the daemon's standard error goes."""
DEADLINE = 5.0
"""Seconds that a lock call may hang (a lost file server) before it counts as unsupported."""


class AlreadyOwned(Frozen):
    """Another daemon owns the repository. `pid` is what it wrote for people, None if it has not yet; `lock` the file it holds."""

    pid: int | None
    lock: str


class Ownership:
    """Both locks, held until `release` or the end of the process.

    `degraded` is one sentence for people where only one of the two files can be locked, else None.
    """

    def __init__(self, root: Root, inner: LockFile, local: LockFile) -> None:
        self._root = root
        self._root_id = _folder_id(root)
        self._locks: tuple[LockFile, ...] = (inner, local)
        broken = next((lock for lock in self._locks if not lock.locks), None)
        self.degraded = f"{shown(broken.path)} cannot be locked there; the other lock decides alone" if broken else None
        for lock in self._locks:
            lock.sign(root.path, "{}-{}".format(*self._root_id))

    @classmethod
    def inherit(cls, root: Root, inner: int, local: int, uid: int, *, flock: Flock = fcntl.flock) -> Ownership | None:
        """Both locks from the descriptors of an owner that goes; they were never let go of in between. Signed by us from now on.

        None, and both closed, if they are not the files at their paths any more, or somebody else has a lock: then nothing was
        inherited. A lock of a shared open file is had by locking it again.
        """
        paths = (root.join(FOLDER, LOCK), local_lock_path(root, uid))
        locks = [adopt_lock(path, fd, flock) for path, fd in zip(paths, (inner, local), strict=True)]
        held = [lock for lock in locks if lock is not None and lock.is_in_place()]
        if len(held) == len(paths) and any(lock.locks for lock in held):
            return cls(root, *held)
        for lock, fd in zip(locks, (inner, local), strict=True):
            os.close(fd) if lock is None else lock.close()
        return None

    @property
    def descriptors(self) -> tuple[int, int]:
        """The open files, inner and local, for whoever is to have the same locks; they stay open here."""
        inner, local = self._locks
        return inner.fd, local.fd

    def hand_on(self) -> None:
        """Close our descriptors and touch nothing: somebody else has the same open files, and with them the locks."""
        locks, self._locks = self._locks, ()
        for lock in locks:
            lock.close()

    @classmethod
    def acquire(cls, root: Root, uid: int, *, flock: Flock = fcntl.flock, deadline: float = DEADLINE) -> Ownership | AlreadyOwned:
        """Take both locks, or say who has them. Waits for no lock, and for a lock call that hangs at most `deadline` seconds.

        Creates `.cueloop/cache/cueloopd/` where `.cueloop` exists. Raises PlaceError for a place that is not ours alone or cannot
        be locked, and `store.not_writable.NotWritable` where our folder in the repository cannot be made.
        """
        ensure_private_folder(local_folder(uid), uid)
        with contextlib.ExitStack() as undo:
            # The local one first: while it is held, nothing is created in the repository.
            local = take_lock(local_lock_path(root, uid), flock, deadline)
            if isinstance(local, HeldBy):
                return AlreadyOwned(local.pid, local.path)
            undo.callback(local.close)
            # Imported only by the winner: one that lost the race leaves in the time of a bare interpreter.
            from cueloop_daemon.store.atomic import Author
            from cueloop_daemon.store.folder import ensure_folder

            pid = os.getpid()
            ensure_folder(root, uid, Author(pid, process_start_time(pid) or ""))
            inner = take_lock(root.join(FOLDER, LOCK), flock, deadline)
            if isinstance(inner, HeldBy):
                return AlreadyOwned(inner.pid, inner.path)
            undo.callback(inner.close)
            for lock in (inner, local):
                if (signer := lock.live_signer()) is not None:
                    return AlreadyOwned(signer, shown(lock.path))
            if not inner.locks and not local.locks:
                raise PlaceError(
                    "neither the repository nor /tmp lets files be locked", "put one of them on a local disk", errno.ENOLCK
                )
            ownership = cls(root, inner, local)
            undo.pop_all()
            return ownership

    def still_ours(self) -> bool:
        """Whether both lock files, and the root itself, are still the ones that were taken; to be asked before each write."""
        if not self._locks or not all(lock.is_in_place() for lock in self._locks):
            return False
        try:
            return _folder_id(self._root) == self._root_id
        except OSError:
            return False

    def freshen(self) -> None:
        """Make the local lock look used, so that cleaners of `/tmp` leave it alone; once a day is enough."""
        for lock in self._locks[1:]:
            for path in (lock.path, os.path.dirname(lock.path)):
                with contextlib.suppress(OSError):
                    os.utime(path)

    def release(self, *folders: str) -> None:
        """Let both locks go, and leave nothing in `/tmp`: `folders` are removed too, if they are empty. Safe to call again.

        What starters have left goes while nobody else can become the owner, so that it is never a successor's. Two that hold a
        removed `.start` and a new one start at the same time, and one of them finds the repository owned.
        """
        locks, self._locks = self._locks, ()
        for lock in locks:
            lock.unsign()
        for lock in locks[1:]:
            # Safe while it is held: who opened it before looks at the path again after locking, and starts over.
            if lock.is_in_place():
                for folder in folders:
                    with contextlib.suppress(OSError):
                        os.rmdir(folder)
                for path in (*(lock.path.removesuffix(LOCK_ENDING) + ending for ending in STARTERS), lock.path):
                    with contextlib.suppress(OSError):
                        os.unlink(path)
        for lock in locks:
            lock.close()


def _folder_id(root: Root) -> tuple[int, int]:
    """Device and inode of what is at the root's path now; `base` may be a descriptor, which a removed root still has."""
    if root.base == root.path:
        status = os.stat(root.path)
    else:
        fd = open_folder(root.path)
        try:
            status = os.fstat(fd)
        finally:
            os.close(fd)
    return status.st_dev, status.st_ino

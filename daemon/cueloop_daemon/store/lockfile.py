"""One lock file: opened, locked without waiting, and looked at again afterwards. Standard library only.

`flock` belongs to the open file, so it ends with the process whatever kills it: no pid, age or clean-up decides. What is written
inside is for people, and to find an owner where a lock call succeeds for everybody.
"""

from __future__ import annotations

import _thread
import contextlib
import errno
import fcntl
import os
import stat

from cueloop_protocol.frozen import Frozen
from cueloop_protocol.identity import boot_id, is_pid, is_same_process, process_start_time
from cueloop_protocol.owners import path_word
from cueloop_protocol.place import PlaceError
from cueloop_protocol.roots import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Flock = Callable[[int, int], object]

_UNSUPPORTED = {errno.ENOLCK, errno.EBADF, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL}
_REPLACED_LIMIT = 20
_RECORD_LIMIT = 4096
_open_locks: set[int] = set()


class HeldBy(Frozen):
    """Somebody else holds the lock. `pid` is what the holder wrote, None if nothing sensible; `path` is for people."""

    pid: int | None
    path: str


class LockFile(Frozen):
    """A lock that is held until `close` or the end of the process. Children never inherit it, not even by fork.

    `locks` is False where the file system cannot lock: then the file is open, and nothing more.
    """

    path: str
    fd: int
    device: int
    inode: int
    locks: bool

    def is_in_place(self) -> bool:
        """Whether the path still leads to the file that was locked."""
        try:
            status = os.lstat(self.path)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == (self.device, self.inode)

    def sign(self, root: str, folder: str) -> None:
        """Write who we are, and of what, into the file; a full disk or a read-only descriptor takes nothing from the lock.

        `root` is the repository's path, `folder` its device and inode; see `cueloop_protocol.owners`.
        """
        pid = os.getpid()
        start, host = process_start_time(pid) or "", os.uname().nodename
        text = f"pid: {pid}\nstart: {start}\nboot: {boot_id()}\nhost: {host}\nfile: {self._file}\n"
        # What is long comes last: readers of the lines above look at the first few thousand bytes alone.
        text += f"folder: {folder}\nroot: {path_word(root)}\n"
        with contextlib.suppress(OSError):
            os.ftruncate(self.fd, 0)
            os.pwrite(self.fd, text.encode("utf-8", "replace"), 0)

    def live_signer(self) -> int | None:
        """The pid of another live process of this machine and boot that signed this file and has not wiped it, or None.

        A copy says the same and is another file: a repository copied under a live daemon is nobody's.
        """
        record = _record(self.fd)
        pid = _pid(record)
        if pid is None or pid == os.getpid() or record.get("host") != os.uname().nodename or record.get("file") != self._file:
            return None
        return pid if is_same_process(pid, record.get("start", ""), record.get("boot", "")) else None

    def unsign(self) -> None:
        """Wipe what `sign` wrote."""
        with contextlib.suppress(OSError):
            os.ftruncate(self.fd, 0)

    @property
    def _file(self) -> str:
        return f"{self.device}-{self.inode}"

    def close(self) -> None:
        """Let the lock go; the file stays."""
        _close(self.fd)


def take_lock(path: str, flock: Flock, deadline: float) -> LockFile | HeldBy:
    """Lock the file at `path`, creating it 0600, without waiting; a call that hangs for `deadline` seconds counts as failed.

    The file that is at `path` when the lock is held is the one that is locked. Raises PlaceError if there can be none.
    """
    for _ in range(_REPLACED_LIMIT):
        fd = _open(path)
        try:
            locks = _try(fd, flock, deadline)
            if locks is None:
                return HeldBy(_pid(_record(fd)), shown(path))
            status = os.fstat(fd)
            lock = LockFile(path, fd, status.st_dev, status.st_ino, locks)
            if lock.is_in_place():
                fd = -1
                return lock
        finally:
            if fd >= 0:
                _close(fd)
    raise PlaceError(f"{shown(path)} is replaced again and again", "find out what removes it")


def adopt_lock(path: str, fd: int, flock: Flock) -> LockFile | None:
    """The lock of a predecessor, whose open file is `fd`; None if it is held by somebody else, or no plain file."""
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        return None
    try:
        flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        locks = True
    except BlockingIOError:
        return None
    except OSError:
        locks = False
    os.set_inheritable(fd, False)
    _open_locks.add(fd)
    return LockFile(path, fd, status.st_dev, status.st_ino, locks)


def _open(path: str) -> int:
    flags = os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        try:
            fd = os.open(path, flags | os.O_RDWR, 0o600)
        except PermissionError:
            fd = os.open(path, flags | os.O_RDONLY, 0o600)  # a file that may only be read can be locked all the same
    except OSError as exc:
        raise PlaceError(
            f"{shown(path)} cannot be opened: {exc.strerror}",
            f"check the permissions of {shown(os.path.dirname(path))}",
            exc.errno,
        ) from exc
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise PlaceError(f"{shown(path)} is not a plain file", f"remove it: rm -r {shown(path)}")
    _open_locks.add(fd)
    return fd


def _close(fd: int) -> None:
    _open_locks.discard(fd)
    os.close(fd)


def _try(fd: int, flock: Flock, deadline: float) -> bool | None:
    """True: locked. None: somebody else has it. False: this file system cannot lock, or did not answer."""
    failed: list[OSError] = []
    done = _thread.allocate_lock()
    done.acquire()

    def call() -> None:
        try:
            flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            failed.append(exc)
        finally:
            done.release()

    # In a thread of its own: a lock call on a lost file server cannot be interrupted.
    _thread.start_new_thread(call, ())
    if not done.acquire(timeout=deadline):
        return False
    if not failed:
        return True
    if isinstance(failed[0], BlockingIOError) or failed[0].errno == errno.EACCES:
        return None
    if failed[0].errno in _UNSUPPORTED:
        return False
    raise PlaceError(f"locking failed: {failed[0].strerror}", "check the disk", failed[0].errno) from failed[0]


def _record(fd: int) -> dict[str, str]:
    try:
        lines = os.pread(fd, _RECORD_LIMIT, 0).decode("utf-8", "replace").splitlines()
    except OSError:
        return {}
    return {key.strip(): value.strip() for key, colon, value in (line.partition(":") for line in lines) if colon}


def _pid(record: dict[str, str]) -> int | None:
    text = record.get("pid", "")
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 11 else 0
    return number if is_pid(number) else None


def _close_in_child() -> None:
    """A forked child shares the parent's open files, and with them its locks: they would outlive the parent."""
    for fd in list(_open_locks):
        with contextlib.suppress(OSError):
            _close(fd)


os.register_at_fork(after_in_child=_close_in_child)

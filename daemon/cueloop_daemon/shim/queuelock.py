"""The queue lock (`.cueloop/lock`, contract of the files that are shared): taken whole, let go, and a dead holder's cleared.

The folder is made aside with its owner file and then renamed to its name, which must be free: it is never there without an owner,
and its inode is known before. Its `command:` names the run, so that it is recognised after any crash. Standard library only.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys

from cueloop_protocol.frozen import Frozen
from cueloop_protocol.identity import is_pid

from cueloop_daemon.shim.wire import Clear

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

HOME = ".cueloop"
NAME = "lock"
OWNER = "owner"
OWNER_LIMIT = 4096
NAMES_LIMIT = 100
_SIDE = "owner_task_"
_UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Made(Frozen):
    """The lock is ours."""

    device: int
    inode: int
    owner: bytes


class Held(Frozen):
    """Somebody else's. `owner` None: no owner file that can be read. `names`: at most NAMES_LIMIT of what is in the folder."""

    device: int
    inode: int
    owner: bytes | None
    names: tuple[str, ...]

    def is_same(self, made: Made) -> bool:
        """Whether this is the lock that was made so."""
        return (self.device, self.inode, self.owner) == (made.device, made.inode, made.owner)


class Released(Frozen):
    """Ours no more. `left`: side files of live processes, which keep the folder."""

    left: tuple[str, ...]


class Absent(Frozen):
    """There is no lock, or we had none."""


class Foreign(Frozen):
    """What is there is not ours, and stays."""


def owner_file(pid: int, started_at: str, command: str, label: str) -> bytes:
    """The owner file's content; what would break a line is a blank."""
    lines = {"pid": str(pid), "started_at": started_at, "command": command, "label": label}
    return "".join(f"{key}: {' '.join(text.split())}\n" for key, text in lines.items()).encode("utf-8", "replace")


def look(root: int) -> Held | None:
    """Who has the lock; None if nobody. Raises OSError."""
    try:
        folder = os.open(f"{HOME}/{NAME}", _FOLDER, dir_fd=root)
    except FileNotFoundError:
        return None
    except OSError as exc:
        if exc.errno not in (errno.ENOTDIR, errno.ELOOP, errno.EACCES):
            raise
        status = os.stat(f"{HOME}/{NAME}", dir_fd=root, follow_symlinks=False)
        return Held(status.st_dev, status.st_ino, None, ())
    try:
        status = os.fstat(folder)
        names = tuple(sorted(os.listdir(folder))[:NAMES_LIMIT])
        return Held(status.st_dev, status.st_ino, _owner(folder), names)
    finally:
        os.close(folder)


def take(root: int, aside: str, owner: bytes, making: Callable[[Made], None]) -> Made | Held:
    """Take the lock, or say who has it. `making` is called with what it will be just before it gets its name.

    `aside` is a name in `.cueloop` that is only ours. Raises OSError, and then the lock is not taken.
    """
    home = os.open(HOME, _FOLDER & ~os.O_NOFOLLOW, dir_fd=root)
    try:
        _remove(home, aside)
        made = _stage(home, aside, owner)
        try:
            making(made)
            _rename_new(home, aside, NAME)
            return made
        except OSError as exc:
            _remove(home, aside)
            if exc.errno in _UNSUPPORTED:
                return _take_in_place(home, root, owner, making)
            if exc.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
        return look(root) or take(root, aside, owner, making)
    finally:
        os.close(home)


def clear(root: int, dead: Clear) -> None:
    """Remove a dead holder's lock, if it still is exactly that; what live helpers left there keeps the folder. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        _take_out(root, dead.device, dead.inode, dead.owner)


def release(root: int, ours: Made) -> Released | Absent | Foreign:
    """Let our lock go. Raises OSError."""
    try:
        left = _take_out(root, ours.device, ours.inode, ours.owner)
    except FileNotFoundError:
        return Absent()
    return Foreign() if left is None else Released(left)


def _take_out(root: int, device: int, inode: int, owner: bytes | None) -> tuple[str, ...] | None:
    """Unlink the owner of exactly this lock and remove the folder; side files that keep it, or None if it is another lock.

    Done through the folder's descriptor: a lock that somebody makes meanwhile under the same name is never touched.
    """
    try:
        folder = os.open(f"{HOME}/{NAME}", _FOLDER, dir_fd=root)
    except OSError as exc:
        if exc.errno in (errno.ENOTDIR, errno.ELOOP):
            return None
        raise
    try:
        status = os.fstat(folder)
        if (status.st_dev, status.st_ino) != (device, inode) or _owner(folder) != owner:
            return None
        _sweep(folder)
        if owner is not None:
            os.unlink(OWNER, dir_fd=folder)
        elif OWNER in os.listdir(folder):
            return None
        try:
            os.rmdir(f"{HOME}/{NAME}", dir_fd=root)
        except OSError as exc:
            if exc.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            return tuple(sorted(os.listdir(folder))[:NAMES_LIMIT])
        return ()
    finally:
        os.close(folder)


def _sweep(folder: int) -> None:
    """Remove the side files of processes that are no more."""
    for name in os.listdir(folder):
        pid = name.removeprefix(_SIDE).partition("_")[0]
        if name.startswith(_SIDE) and pid.isascii() and pid.isdigit() and _is_dead(int(pid)):
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=folder)


def _is_dead(pid: int) -> bool:
    if not is_pid(pid):
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _owner(folder: int) -> bytes | None:
    try:
        fd = os.open(OWNER, _FILE, dir_fd=folder)
    except OSError:
        return None
    try:
        return os.read(fd, OWNER_LIMIT)
    except OSError:
        return None
    finally:
        os.close(fd)


def _stage(home: int, aside: str, owner: bytes) -> Made:
    """A folder with its owner, on the medium: after a power cut the lock has its owner or is not there."""
    os.mkdir(aside, 0o755, dir_fd=home)
    folder = os.open(aside, _FOLDER, dir_fd=home)
    try:
        _write_owner(folder, owner)
        os.fsync(folder)
        status = os.fstat(folder)
        return Made(status.st_dev, status.st_ino, owner)
    except OSError:
        _remove(home, aside)
        raise
    finally:
        os.close(folder)


def _write_owner(folder: int, owner: bytes) -> None:
    fd = os.open(OWNER, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=folder)
    try:
        if os.write(fd, owner) != len(owner):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(fd)
    finally:
        os.close(fd)


def _take_in_place(home: int, root: int, owner: bytes, making: Callable[[Made], None]) -> Made | Held:
    """Where nothing can be renamed without replacing: as other tools do, the folder first and its owner then."""
    try:
        os.mkdir(NAME, 0o755, dir_fd=home)
    except FileExistsError:
        held = look(root)
        if held is None:
            raise
        return held
    folder = os.open(NAME, _FOLDER, dir_fd=home)
    try:
        status = os.fstat(folder)
        made = Made(status.st_dev, status.st_ino, owner)
        making(made)
        _write_owner(folder, owner)
        return made
    except OSError:
        _remove(home, NAME)
        raise
    finally:
        os.close(folder)


def _remove(home: int, name: str) -> None:
    """Remove a folder of ours with its owner file, if it is there."""
    with contextlib.suppress(FileNotFoundError):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{name}/{OWNER}", dir_fd=home)
        os.rmdir(name, dir_fd=home)


def _rename_new(home: int, source: str, target: str) -> None:
    """Rename within a folder to a name that is free. Raises FileExistsError, or one of _UNSUPPORTED."""
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    name = "renameatx_np" if sys.platform == "darwin" else "renameat2"
    flag = 4 if sys.platform == "darwin" else 1  # RENAME_EXCL, RENAME_NOREPLACE
    call = getattr(library, name, None)
    if call is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), source)
    if call(home, os.fsencode(source), home, os.fsencode(target), ctypes.c_uint(flag)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), source, None, target)

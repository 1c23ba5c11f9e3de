"""The queue lock (`.cueloop/lock`, contract of the files that are shared): taken whole, let go, and a dead holder's cleared.

The folder is made aside with its owner file and then renamed to its name, which must be free: it is never there without an owner,
and its inode is known before. Its `command:` names the run, so that it is recognised after any crash. Standard library only.
"""

from __future__ import annotations

import errno
import os
import stat

from cueloop_daemon.shim.lean import suppress
from cueloop_daemon.shim.staging import FOLDER, OWNER, UNSUPPORTED, remove, rename_new, stage, write_owner
from cueloop_daemon.shim.wire import Clear
from cueloop_protocol.frozen import Frozen
from cueloop_protocol.identity import is_pid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

HOME = ".cueloop"
NAME = "lock"
OWNER_LIMIT = 4096
NAMES_LIMIT = 100
ATTEMPTS = 10
"""How often a lock that vanishes between our rename and our look is tried for again."""
_SIDE = "owner_task_"
_ASIDE = ".lock-"
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


def aside_name(run_id: str, pid: int) -> str:
    """The name in `.cueloop` under which this process of this run makes the lock; by its pid later ones know it for a dead one's."""
    return f"{_ASIDE}{run_id[-8:]}-{pid}"


def look(root: int) -> Held | None:
    """Who has the lock; None if nobody. Raises OSError."""
    try:
        folder = os.open(f"{HOME}/{NAME}", FOLDER, dir_fd=root)
    except FileNotFoundError:
        return None
    except OSError as exc:
        if exc.errno not in (errno.ENOTDIR, errno.ELOOP, errno.EACCES):
            raise
        status = os.stat(f"{HOME}/{NAME}", dir_fd=root, follow_symlinks=False)
        return Held(status.st_dev, status.st_ino, None, ())  # a file, a link, a folder that we may not read: all are in the way
    try:
        status = os.fstat(folder)
        names = tuple(sorted(os.listdir(folder))[:NAMES_LIMIT])
        return Held(status.st_dev, status.st_ino, _owner(folder), names)
    finally:
        os.close(folder)


def take(root: int, aside: str, owner: bytes, making: Callable[[Made], None]) -> Made | Held:
    """Take the lock, or say who has it. `making` is called with what it will be just before it gets its name.

    `aside` is a name that `aside_name` gave. Raises OSError, and then the lock is not taken.
    """
    home = os.open(HOME, FOLDER & ~os.O_NOFOLLOW, dir_fd=root)
    try:
        _sweep_aside(home)
        for _ in range(ATTEMPTS):
            try:
                return _take_whole(home, aside, owner, making)
            except FileExistsError:
                held = look(root)
                if held is not None:
                    return held
            except OSError as exc:
                if exc.errno not in UNSUPPORTED:
                    raise
                return _take_in_place(home, root, owner, making)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), NAME)
    finally:
        os.close(home)


def clear(root: int, dead: Clear) -> None:
    """Remove a dead holder's lock, if it still is exactly that; what live helpers left there keeps the folder. Raises OSError."""
    with suppress(FileNotFoundError):
        _take_out(root, dead.device, dead.inode, dead.owner)


def release(root: int, ours: Made) -> Released | Absent | Foreign:
    """Let our lock go. Raises OSError."""
    try:
        left = _take_out(root, ours.device, ours.inode, ours.owner)
    except FileNotFoundError:
        return Absent()
    return Foreign() if left is None else Released(left)


def _take_whole(home: int, aside: str, owner: bytes, making: Callable[[Made], None]) -> Made:
    """Made aside and renamed. Raises FileExistsError if there is a lock, one of UNSUPPORTED, or another OSError."""
    remove(home, aside)
    status = stage(home, aside, owner)
    made = Made(status.st_dev, status.st_ino, owner)
    try:
        making(made)
        rename_new(home, aside, NAME)
    except OSError:
        remove(home, aside)
        raise
    return made


def _take_out(root: int, device: int, inode: int, owner: bytes | None) -> tuple[str, ...] | None:
    """Unlink the owner of exactly this lock and remove the folder; side files that keep it, or None if it is another lock.

    Done through the folder's descriptor: a lock that somebody makes meanwhile under the same name is never touched.
    """
    try:
        folder = os.open(f"{HOME}/{NAME}", FOLDER, dir_fd=root)
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
        if name.startswith(_SIDE) and _is_dead(name.removeprefix(_SIDE).partition("_")[0]):
            with suppress(OSError):
                os.unlink(name, dir_fd=folder)


def _sweep_aside(home: int) -> None:
    """Remove locks that dead shims were about to make."""
    for name in os.listdir(home):
        if name.startswith(_ASIDE) and _is_dead(name.rpartition("-")[2]):
            with suppress(OSError):
                remove(home, name)


def _is_dead(pid: str) -> bool:
    """Whether the digits are a pid that nobody has."""
    if not (pid.isascii() and pid.isdigit() and len(pid) < 11 and is_pid(int(pid))):
        return False
    try:
        os.kill(int(pid), 0)
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
        return os.read(fd, OWNER_LIMIT) if stat.S_ISREG(os.fstat(fd).st_mode) else None
    except OSError:
        return None
    finally:
        os.close(fd)


def _take_in_place(home: int, root: int, owner: bytes, making: Callable[[Made], None]) -> Made | Held:
    """Where nothing can be renamed without replacing: as other tools do, the folder first and its owner then."""
    try:
        os.mkdir(NAME, 0o777, dir_fd=home)
    except FileExistsError:
        held = look(root)
        if held is None:
            raise
        return held
    folder = os.open(NAME, FOLDER, dir_fd=home)
    try:
        status = os.fstat(folder)
        made = Made(status.st_dev, status.st_ino, owner)
        making(made)
        write_owner(folder, owner)
        return made
    except OSError:
        remove(home, NAME)
        raise
    finally:
        os.close(folder)

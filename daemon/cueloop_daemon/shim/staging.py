"""The system's part in making the queue lock: a folder with its owner file, and a rename that replaces nothing. Standard library only."""

from __future__ import annotations

import errno
import os
import sys

from cueloop_daemon.shim.lean import suppress

OWNER = "owner"
UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP)
"""What `rename_new` raises where the kernel or the file system cannot do it."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def stage(home: int, aside: str, owner: bytes) -> os.stat_result:
    """Make a folder with its owner file, both on the medium: after a power cut a lock has its owner or is not there.

    Its facts. Raises OSError, and then nothing is left.
    """
    os.mkdir(aside, 0o777, dir_fd=home)
    folder = os.open(aside, FOLDER, dir_fd=home)
    try:
        write_owner(folder, owner)
        os.fsync(folder)
        return os.fstat(folder)
    except OSError:
        remove(home, aside)
        raise
    finally:
        os.close(folder)


def write_owner(folder: int, owner: bytes) -> None:
    """Write the owner file, which must not be there, and wait for the medium. Raises OSError."""
    fd = os.open(OWNER, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=folder)
    try:
        if os.write(fd, owner) != len(owner):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(fd)
    finally:
        os.close(fd)


def remove(home: int, name: str) -> None:
    """Remove a folder of ours with its owner file, if it is there."""
    with suppress(FileNotFoundError):
        with suppress(FileNotFoundError):
            os.unlink(f"{name}/{OWNER}", dir_fd=home)
        os.rmdir(name, dir_fd=home)


def rename_new(home: int, source: str, target: str) -> None:
    """Rename within a folder to a name that is free. Raises FileExistsError, or one of UNSUPPORTED."""
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

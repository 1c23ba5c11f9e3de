"""The system calls that writing uses, as one object, so that a test can stop or fail any of them. Standard library only.

Everything in the store that changes the file system goes through a `System`. Paths are text; every method raises `OSError`
as the call itself does and retries nothing.
"""

from __future__ import annotations

import errno
import os
import sys

if sys.platform == "darwin":
    import fcntl

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_RENAME_EXCHANGE = 2
_RENAME_SWAP_DARWIN = 2
_RENAME_EXCL_DARWIN = 4

# Not every C library has a wrapper for renameat2; the call's number depends on the machine.
_RENAMEAT2_NUMBERS = {
    "x86_64": 316,
    "aarch64": 276,
    "riscv64": 276,
    "loongarch64": 276,
    "i686": 353,
    "i386": 353,
    "armv7l": 382,
    "armv6l": 382,
    "ppc64le": 357,
    "s390x": 347,
}

UNSUPPORTED = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})
"""What `exchange` and `rename_new` raise where the kernel or the file system cannot do them."""


class System:
    """The real calls. A test gives a subclass; the product has no other."""

    def open(self, path: str, flags: int, mode: int = 0o600) -> int:
        """A descriptor that no child inherits."""
        return os.open(path, flags | os.O_CLOEXEC, mode)

    def close(self, fd: int) -> None:
        """Close the descriptor."""
        os.close(fd)

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        """At most `size` bytes from `offset`; empty at the end."""
        return os.pread(fd, size, offset)

    def write(self, fd: int, data: memoryview) -> int:
        """How many of the bytes were taken: possibly not all."""
        return os.write(fd, data)

    def fsync(self, fd: int) -> None:
        """Return when the content is on the medium; on macOS past the drive's own cache, which plain fsync there leaves out."""
        if sys.platform == "darwin":
            try:
                fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
            except OSError as exc:
                if exc.errno not in UNSUPPORTED:
                    raise
            else:
                return
        os.fsync(fd)

    def fsync_folder(self, path: str) -> None:
        """Return when the names in the folder are on the medium; nothing happens on file systems that know no such thing."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        except OSError as exc:
            if exc.errno not in UNSUPPORTED:
                raise
        finally:
            os.close(fd)

    def fstat(self, fd: int) -> os.stat_result:
        """The facts of an open file."""
        return os.fstat(fd)

    def lstat(self, path: str) -> os.stat_result:
        """The facts of what is at the path; a link is itself."""
        return os.lstat(path)

    def fchmod(self, fd: int, mode: int) -> None:
        """Set the mode bits exactly."""
        os.fchmod(fd, mode)

    def replace(self, source: str, target: str) -> None:
        """Rename over whatever file is there."""
        os.replace(source, target)

    def exchange(self, one: str, other: str) -> None:
        """Both must exist; each gets the other's name, in one step. Raises one of `UNSUPPORTED` where that cannot be done."""
        _rename_with(one, other, linux=_RENAME_EXCHANGE, darwin=_RENAME_SWAP_DARWIN)

    def rename_new(self, source: str, target: str) -> None:
        """Rename, or `FileExistsError` if anything is at the target. Raises one of `UNSUPPORTED` where that cannot be done."""
        _rename_with(source, target, linux=_RENAME_NOREPLACE, darwin=_RENAME_EXCL_DARWIN)

    def link(self, source: str, target: str) -> None:
        """A second name for a file, or `FileExistsError`."""
        os.link(source, target, follow_symlinks=False)

    def unlink(self, path: str) -> None:
        """Remove a name."""
        os.unlink(path)

    def mkdir(self, path: str, mode: int) -> None:
        """Make one folder."""
        os.mkdir(path, mode)

    def listdir(self, path: str) -> list[str]:
        """The names in a folder, sorted."""
        return sorted(os.listdir(path))


def _rename_with(source: str, target: str, *, linux: int, darwin: int) -> None:
    import ctypes  # here, because the ownership lock is taken before anything that costs time is imported

    library = ctypes.CDLL(None, use_errno=True)
    old, new = os.fsencode(source), os.fsencode(target)
    if sys.platform == "darwin":
        failed = library.renamex_np(old, new, ctypes.c_uint(darwin))
    elif hasattr(library, "renameat2"):
        failed = library.renameat2(_AT_FDCWD, old, _AT_FDCWD, new, ctypes.c_uint(linux))
    else:
        number = _RENAMEAT2_NUMBERS.get(os.uname().machine)
        if number is None:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), source)
        failed = library.syscall(
            ctypes.c_long(number), ctypes.c_int(_AT_FDCWD), old, ctypes.c_int(_AT_FDCWD), new, ctypes.c_uint(linux)
        )
    if failed:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), source, None, target)

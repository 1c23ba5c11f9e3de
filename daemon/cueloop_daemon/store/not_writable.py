"""What a person is told when the file system does not let us write. Standard library only."""

from __future__ import annotations

import errno
import os

_NO_ACCESS = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})

_SENTENCES = {
    errno.ENOSPC: ("the disk is full", "Free some space and try again."),
    errno.EDQUOT: ("your disk quota is used up", "Free some space and try again."),
    errno.EROFS: ("the file system is read-only", "Mount it writable and try again."),
    errno.EACCES: ("access is denied", "Check the owner and the mode of {folder}, and that you may write in it."),
    errno.EPERM: ("the operation is not permitted", "Check the owner and the attributes of {folder} and of the file."),
    errno.EIO: ("the disk reported an input/output error", "Check the disk; the system's log names the device."),
    errno.EMFILE: (
        "too many files are open in this process",
        "Raise the limit of open files (ulimit -n) and restart the daemon.",
    ),
    errno.ENFILE: ("too many files are open on this machine", "Close programs or raise the system's limit of open files."),
    errno.ENOENT: ("its folder is gone", "Make the .cueloop folder again (`cueloop init`) and try again."),
    errno.ENOTDIR: ("a file stands where a folder must be", "Move that file away and try again."),
    errno.EISDIR: ("a folder stands where a file must be", "Move that folder away and try again."),
    errno.ENAMETOOLONG: ("the path is too long", "Move the repository to a shorter path."),
    errno.EXDEV: ("our folder is on another file system", "Keep .cueloop/cache/cueloopd on the file system of .cueloop/cache."),
    errno.EBUSY: ("another program keeps writing the file", "Stop the other writer and try again."),
}


class NotWritable(Exception):
    """A file could not be written, removed or moved; what was there before is still there.

    `message` is one plain sentence fit for strangers and `remedy` another; `code` is the error document's
    (`permission_denied` for no access and read-only, else `unknown`); `errno` is 0 where no system call failed.
    """

    def __init__(self, message: str, remedy: str, *, path: str, code: str = "unknown", number: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.path = path
        self.code = code
        self.errno = number


class FolderMissing(NotWritable):
    """There is no `.cueloop` folder, and it is not ours to make."""


class FolderRefused(NotWritable):
    """Something stands where our folder must be that we do not write through: a link, a file, another user's folder."""


def not_writable(exc: OSError, path: str, action: str = "write") -> NotWritable:
    """The error for people. `path` is the file as they see it, `action` the verb: "write", "remove", "move"."""
    number = exc.errno or 0
    why, remedy = _SENTENCES.get(number, (os.strerror(number) if number else str(exc), "Check the folder and try again."))
    code = "permission_denied" if number in _NO_ACCESS else "unknown"
    remedy = remedy.replace("{folder}", os.path.dirname(path) or path)
    return NotWritable(f"Cannot {action} {path}: {why}.", remedy, path=path, code=code, number=number)

"""`.cueloop/cache/cueloopd/`, the one folder in the repository that is ours alone. Standard library only."""

from __future__ import annotations

import contextlib
import os
import stat

from cueloop_daemon.store.atomic import Author, write_all, write_file
from cueloop_daemon.store.not_writable import FolderMissing, FolderRefused, NotWritable, not_writable
from cueloop_daemon.store.system import System
from cueloop_protocol.roots import Root, shown

CACHE = (".cueloop", "cache")
OURS = (*CACHE, "cueloopd")
IGNORE_ALL = b"*\n"


def shown_path(root: Root, *parts: str) -> str:
    """A path below the root as people see it."""
    return shown("/".join((root.path, *parts)))


def ensure_cache(root: Root, system: System) -> str:
    """The I/O path of `.cueloop/cache`, made if it is missing; `.cueloop` itself never is.

    Raises `FolderMissing` without `.cueloop`, `FolderRefused` if either is no folder or a link out of the repository,
    `NotWritable` if it cannot be made.
    """
    for parts in (CACHE[:1], CACHE):
        path, text = root.join(*parts), shown_path(root, *parts)
        try:
            status = system.lstat(path)
        except FileNotFoundError:
            if parts == CACHE[:1]:
                raise FolderMissing(f"There is no folder {text}.", "Run `cueloop init` in the repository.", path=text) from None
            _make(system, path, text, 0o755)
            continue
        except OSError as exc:
            raise not_writable(exc, text, "use") from exc
        if stat.S_ISLNK(status.st_mode) and not _leads_inside(root, path):
            raise FolderRefused(
                f"{text} is a link out of the repository; nothing is written through it.",
                "Replace the link by a folder.",
                path=text,
            )
        if not stat.S_ISDIR(status.st_mode) and not stat.S_ISLNK(status.st_mode):
            raise FolderRefused(f"{text} is not a folder.", "Move it away and try again.", path=text)
    return root.join(*CACHE)


def ensure_folder(root: Root, uid: int, author: Author, system: System | None = None) -> str:
    """The I/O path of our folder: ours, 0700, no link, with the `.gitignore` of `*` in it before anything else.

    Raises what `ensure_cache` raises, and `FolderRefused` if something else stands there or it is another user's.
    """
    system = system or System()
    ensure_cache(root, system)
    path, text = root.join(*OURS), shown_path(root, *OURS)
    private_folder(system, path, text, uid)
    try:
        _ignore_everything(system, f"{path}/.gitignore", author)
    except OSError as exc:
        raise not_writable(exc, f"{text}/.gitignore") from exc
    return path


def private_folder(system: System, path: str, text: str, uid: int) -> None:
    """Make `path` if it is missing, and be sure that it is a real folder of `uid` with mode 0700."""
    with contextlib.suppress(FileExistsError):
        _make(system, path, text, 0o700)
    try:
        fd = system.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as exc:
        raise _refusal(system, path, text, exc) from exc
    try:
        status = system.fstat(fd)
        if status.st_uid != uid:
            raise FolderRefused(
                f"{text} belongs to another user (uid {status.st_uid}).",
                "Remove it, or run as that user.",
                path=text,
                code="permission_denied",
            )
        if stat.S_IMODE(status.st_mode) != 0o700:
            system.fchmod(fd, 0o700)
    except OSError as exc:
        raise not_writable(exc, text, "use") from exc
    finally:
        system.close(fd)


def _refusal(system: System, path: str, text: str, exc: OSError) -> NotWritable:
    with contextlib.suppress(OSError):
        if not stat.S_ISDIR(system.lstat(path).st_mode):
            return FolderRefused(f"{text} is not a folder but a link or a file.", "Move it away and try again.", path=text)
    return not_writable(exc, text, "use")


def _make(system: System, path: str, text: str, mode: int) -> None:
    try:
        system.mkdir(path, mode)
        system.fsync_folder(os.path.dirname(path))
    except FileExistsError:
        if mode == 0o700:
            raise
    except OSError as exc:
        raise not_writable(exc, text, "make") from exc


def _ignore_everything(system: System, path: str, author: Author) -> None:
    """Created in place, not by a temporary file: that one would make the tree dirty for a moment."""
    try:
        fd = system.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        if not _says_everything(system, path):  # a crash right after it was created, or somebody's edit
            write_file(system, path, IGNORE_ALL, author)
        return
    try:
        write_all(system, fd, IGNORE_ALL)
        system.fsync(fd)
    finally:
        system.close(fd)
    system.fsync_folder(os.path.dirname(path))


def _says_everything(system: System, path: str) -> bool:
    try:
        fd = system.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return b"*" in system.pread(fd, 64 * 1024, 0).splitlines()
    finally:
        system.close(fd)


def _leads_inside(root: Root, path: str) -> bool:
    """Whether the folder that a link leads to lies in the repository. By descriptors: the path may be longer than PATH_MAX."""
    home = os.stat(root.base)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        while True:
            here = os.fstat(fd)
            if (here.st_dev, here.st_ino) == (home.st_dev, home.st_ino):
                return True
            above = os.open("..", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=fd)
            os.close(fd)
            fd = above
            up = os.fstat(fd)
            if (up.st_dev, up.st_ino) == (here.st_dev, here.st_ino):
                return False
    finally:
        os.close(fd)

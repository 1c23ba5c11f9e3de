"""Where a repository is, and whose configuration counts (contract section 1). Standard library only.

Paths are `str` with surrogateescape inside, so that any bytes survive; `shown` makes text of them for documents.
Paths longer than `PATH_MAX` work: they are walked in pieces through directory descriptors.
"""

from __future__ import annotations

import errno
import os
import sys

from cueloop_protocol.frozen import Frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PATH_MAX = 1024 if sys.platform == "darwin" else 4096
"""What one system call takes, in bytes, with the closing NUL."""
ROOM = 256
"""Bytes kept free behind a root for the longest path that we build below it."""
PIECE = PATH_MAX - ROOM
MARKERS = tuple(f"{name}.{ending}" for name in ("queue", "done", "config", "trust") for ending in ("jsonc", "json"))
_DIRECTORY = os.O_DIRECTORY | os.O_CLOEXEC | (os.O_PATH if sys.platform == "linux" else os.O_RDONLY)
_held: dict[tuple[int, int], int] = {}


class RootError(Exception):
    """The folder from which a command was called cannot be used; `str()` is a plain sentence with the remedy."""


class Root(Frozen):
    """A repository: `path` is what people see and what is hashed, `base` what system calls get.

    They differ only where `path` is too long for a system call.
    """

    path: str
    base: str

    def join(self, *parts: str) -> str:
        """The path for system calls of something below the root; an absolute last part stands for itself."""
        return os.path.join(self.base, *parts)


class Caller(Frozen):
    """Whose configuration is meant: absolute home folder and, where set, absolute `XDG_CONFIG_HOME`."""

    home: str
    config_home: str | None

    @property
    def key(self) -> str:
        """Sixteen hexadecimal digits, the same for the same caller in every process."""
        from hashlib import sha256

        return sha256(os.fsencode(f"{self.home}\0{self.config_home or ''}")).hexdigest()[:16]


def find_root(cwd: str | None) -> Root:
    """The root of the repository that `cwd` (None: the process's working directory) lies in; without any, `cwd` itself.

    Walks up the physical path. Raises RootError if the folder is gone, is none, or may not be entered.
    """
    here = physical_path(cwd)
    return _root_at(next((path for path in _upwards(here) if _is_root(path)), here))


def open_root(path: str) -> Root:
    """The root at exactly `path`, links resolved. Raises RootError like `find_root`."""
    return _root_at(physical_path(path))


def physical_path(path: str | None) -> str:
    """The absolute path of the folder without links, of any length. Raises RootError."""
    try:
        if path is None:
            return _working_directory()
        if sys.platform == "darwin" or len(os.fsencode(path)) >= PIECE:
            return _path_of_opened(path)
        real = os.path.realpath(path, strict=True)
        os.stat(real + "/.")
        return real
    except OSError as exc:
        if exc.errno == errno.ENAMETOOLONG and path is not None:
            return _path_of_opened(path)
        raise _unusable(path, exc) from exc


def open_folder(path: str) -> int:
    """A descriptor of the folder at `path`, however long it is; close it. Raises OSError."""
    data = os.fsencode(path)
    fd = os.open("/" if data.startswith(b"/") else ".", _DIRECTORY)
    try:
        for piece in _pieces(data):
            deeper = os.open(piece, _DIRECTORY, dir_fd=fd)
            os.close(fd)
            fd = deeper
    except BaseException:
        os.close(fd)
        raise
    return fd


def shown(path: str) -> str:
    """`path` as text for documents and people: bytes that are no UTF-8 become U+FFFD."""
    return os.fsencode(path).decode("utf-8", "replace")


def caller_from_environment(environ: Mapping[str, str], passwd_home: str) -> Caller:
    """The caller whose environment this is. What is empty or relative counts as unset; an unset HOME is `passwd_home`."""
    home, config_home = environ.get("HOME", ""), environ.get("XDG_CONFIG_HOME", "")
    return Caller(home if os.path.isabs(home) else passwd_home, config_home if os.path.isabs(config_home) else None)


def global_config_dir(caller: Caller) -> str:
    """`$XDG_CONFIG_HOME/cueloop`, else `~/.config/cueloop`."""
    return os.path.join(caller.config_home or os.path.join(caller.home, ".config"), "cueloop")


def global_config_path(caller: Caller) -> str:
    """The global config file, whether or not it exists."""
    return os.path.join(global_config_dir(caller), "config.jsonc")


def settings_path(caller: Caller) -> str:
    """The file of our own settings, whether or not it exists."""
    return os.path.join(global_config_dir(caller), "cueloopd.jsonc")


class Expanded(Frozen):
    """A path from a config: `shown` is as printed (joined, not normalised), `io` is for system calls."""

    shown: str
    io: str


def expand(text: str, root: Root, caller: Caller) -> Expanded:
    """The path that a config value means: absolute, `~` or `~/…` of the caller, else relative to the root."""
    if text == "~" or text.startswith("~/"):
        text = os.path.join(caller.home, text[2:]) if len(text) > 2 else caller.home
    return Expanded(shown(os.path.join(root.path, text)), os.path.join(root.base, text))


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError as exc:
        if exc.errno not in (errno.ENAMETOOLONG, errno.ERANGE):
            raise
        return _path_of_opened(".")


def _unusable(path: str | None, exc: OSError) -> RootError:
    where = "the working directory" if path is None else f"{shown(path)!r}"
    if isinstance(exc, FileNotFoundError):
        return RootError(f"{where} does not exist (any more): change to a folder that does, or name one with --repo")
    return RootError(f"{where} cannot be used as a folder ({exc.strerror}): change to another, or name one with --repo")


def _root_at(path: str) -> Root:
    if len(os.fsencode(path)) < PIECE:
        return Root(path, path)
    try:
        fd = open_folder(path)
    except OSError as exc:
        raise _unusable(path, exc) from exc
    status = os.fstat(fd)
    kept = _held.setdefault((status.st_dev, status.st_ino), fd)
    if kept != fd:
        os.close(fd)
    # The descriptor stays open for the life of the process: it *is* the path. macOS addresses a folder by its number instead.
    return Root(path, f"/.vol/{status.st_dev}/{status.st_ino}" if sys.platform == "darwin" else f"/proc/self/fd/{kept}")


def _upwards(path: str) -> Iterator[str]:
    while True:
        yield path
        above = os.path.dirname(path)
        if above == path:
            return
        path = above


def _is_root(path: str) -> bool:
    if len(os.fsencode(path)) < PIECE:
        return _has_marker(path, None)
    fd = open_folder(path)
    try:
        return _has_marker("", fd)
    finally:
        os.close(fd)


def _has_marker(prefix: str, fd: int | None) -> bool:
    if _kind(os.path.join(prefix, ".git"), fd) is not None:
        return True
    folder = os.path.join(prefix, ".cueloop")
    return _kind(folder, fd) == 0o040000 and any(_kind(f"{folder}/{name}", fd) == 0o100000 for name in MARKERS)


def _kind(path: str, fd: int | None) -> int | None:
    """The file type bits of what `path` leads to; None where nothing can be seen."""
    try:
        return os.stat(path, dir_fd=fd).st_mode & 0o170000
    except OSError:
        return None


def _pieces(path: bytes) -> Iterator[bytes]:
    """`path` cut at slashes into relative paths that a system call takes; ends with `.`, so that a plain file fails."""
    piece = b""
    for name in path.split(b"/"):
        if not name:
            continue
        if piece and len(piece) + 1 + len(name) > PIECE:
            yield piece
            piece = b""
        piece = piece + b"/" + name if piece else name
    yield piece or b"."


def _path_of_opened(path: str) -> str:
    fd = -1
    try:
        fd = open_folder(path)
        return _path_of(fd)
    except OSError as exc:
        raise _unusable(path, exc) from exc
    finally:
        if fd >= 0:
            os.close(fd)


def _path_of(fd: int) -> str:
    """The physical path of an open folder: what the kernel says, or where that is too long, by walking up to `/`."""
    try:
        if sys.platform == "darwin":
            import fcntl

            return os.fsdecode(fcntl.fcntl(fd, 50, bytes(PATH_MAX)).rstrip(b"\0"))  # F_GETPATH: also the true case of letters
        path = os.readlink(f"/proc/self/fd/{fd}")
        if os.path.samestat(os.stat(path), os.fstat(fd)):
            return path
    except OSError:
        pass
    return _path_by_walking(fd)


def _path_by_walking(start: int) -> str:
    names: list[str] = []
    fd = os.dup(start)
    try:
        while True:
            above = os.open("..", _DIRECTORY, dir_fd=fd)
            here = os.fstat(fd)
            os.close(fd)
            fd = above
            if os.path.samestat(here, os.fstat(fd)):
                return "/" + "/".join(reversed(names))
            names.append(_name_in(fd, here))
    finally:
        os.close(fd)


def _name_in(folder: int, wanted: os.stat_result) -> str:
    """The name under which `folder` holds the folder `wanted`; by inode, as a mount point's directory entry shows another."""
    readable = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        for name in os.listdir(readable):
            try:
                if os.path.samestat(os.stat(name, dir_fd=readable, follow_symlinks=False), wanted):
                    return name
            except OSError:
                continue
    finally:
        os.close(readable)
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

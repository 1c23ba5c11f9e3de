"""Where a repository is, and whose configuration counts (contract section 1). Standard library only.

Paths are `str` with surrogateescape inside, so that any bytes survive; `shown` makes text of them for documents.
Paths longer than `PATH_MAX` work: they are walked in pieces through directory descriptors.
"""

from __future__ import annotations

import errno
import os
import sys

from cueloop_protocol.folders import PIECE, open_folder, path_of_folder, working_directory
from cueloop_protocol.frozen import Frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MARKERS = tuple(f"{name}.{ending}" for name in ("queue", "done", "config", "trust") for ending in ("jsonc", "json"))
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
        from cueloop_protocol.digest import hex_digest

        return hex_digest(os.fsencode(f"{self.home}\0{self.config_home or ''}"))[:16]


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
        return working_directory() if path is None else _resolved(path)
    except OSError as exc:
        raise _unusable(path, exc) from exc


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


def _resolved(path: str) -> str:
    if sys.platform == "darwin" or len(os.fsencode(path)) >= PIECE:
        return path_of_folder(path)
    try:
        real = os.path.realpath(path, strict=True)
        os.stat(real + "/.")
    except OSError as exc:
        if exc.errno != errno.ENAMETOOLONG:
            raise
        return path_of_folder(path)
    return real


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

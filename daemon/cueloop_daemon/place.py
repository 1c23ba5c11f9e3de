"""Where one daemon's own things are: its event log, its socket, and the locator by which clients find it."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from collections.abc import Callable

from cueloop_daemon.events.model import LONGEST_PATH, Place
from cueloop_daemon.runs.db import RunsPlace
from cueloop_daemon.server.listener import Listener
from cueloop_daemon.shim.wire import STOPPED
from cueloop_daemon.store.atomic import Author, write_file
from cueloop_daemon.store.folder import ensure_folder
from cueloop_daemon.store.not_writable import NotWritable, not_writable
from cueloop_daemon.store.system import System
from cueloop_daemon.workspace.files import read_regular
from cueloop_protocol.identity import boot_id
from cueloop_protocol.place import (
    FOLDER,
    LOCATOR,
    SOCKET,
    Locator,
    ensure_private_folder,
    ensure_socket_folder,
    local_folder,
    locator_bytes,
    root_hash,
)
from cueloop_protocol.roots import Root, shown
from cueloop_protocol.shapes import OLDEST_PROTOCOL_VERSION, PROTOCOL_VERSION
from cueloop_protocol.values import dataclass
from cueloop_protocol.version import __version__

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OwnPlace:
    """The places of one daemon of `root`. `home` is that of the user's passwd entry, `instance` this daemon's random name."""

    root: Root
    uid: int
    home: str
    instance: str
    author: Author
    system: System

    @property
    def folder(self) -> str:
        """Our folder in the repository, for system calls."""
        return self.root.join(FOLDER)

    @property
    def shown_folder(self) -> str:
        """The same for people."""
        return shown(f"{self.root.path}/{FOLDER}")

    def log_place(self, new_epoch: Callable[[], str], limit: int, still_ours: Callable[[], bool]) -> Place:
        """Where events are kept. SQLite takes no long paths: then they are in the user's state folder, by the root's hash.

        A repository that is not ours any more (`still_ours`) gets no folder and no log.
        """
        path, make_folder = self._kept("events.db", still_ours)
        return Place(path, make_folder, boot_id(), new_epoch, limit)

    def runs_place(self, still_ours: Callable[[], bool]) -> RunsPlace:
        """Where the record of runs is kept; like the event log."""
        return RunsPlace(*self._kept("runs.db", still_ours))

    def _kept(self, name: str, still_ours: Callable[[], bool]) -> tuple[str, Callable[[], None]]:
        """The path of a database, and what makes its folder."""
        path = database_path(self.root, self.home, name)
        if path == f"{self.folder}/{name}":
            return path, lambda: self._make_own_folder(still_ours)
        return path, lambda: os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)

    def bind(self, environ: dict[str, str]) -> Listener:
        """The listening socket at its computed place. Raises PlaceError, NotWritable."""
        path = f"{ensure_socket_folder(self.root, environ, self.uid)}/{SOCKET}"
        try:
            return Listener.bind(path)
        except OSError as exc:
            raise not_writable(exc, path, "make") from exc

    def elsewhere(self) -> str:
        """Where the socket can be whatever happens to the session's runtime folder. Raises PlaceError."""
        folder = f"{local_folder(self.uid)}/{root_hash(self.root)}"
        ensure_private_folder(local_folder(self.uid), self.uid)
        ensure_private_folder(folder, self.uid)
        return f"{folder}/{SOCKET}"

    def publish(self, socket: str) -> None:
        """Write the locator, or leave it as it is if it is ours. Where it cannot be, clients still find the computed place."""
        path, wanted = f"{self.folder}/{LOCATOR}", self._locator(socket)
        try:
            if _content(path) != wanted:
                ensure_folder(self.root, self.uid, self.author, self.system)
                write_file(self.system, path, wanted, self.author)
        except (OSError, NotWritable) as exc:
            logger.warning("locator_not_written path=%s error=%s", path, exc)

    def withdraw(self, socket: str) -> None:
        """Remove the locator, if it is still ours."""
        path = f"{self.folder}/{LOCATOR}"
        try:
            if _content(path) == self._locator(socket):
                os.unlink(path)
        except OSError as exc:
            logger.debug("locator_not_removed error=%s", exc)

    def mark_stopped(self) -> None:
        """Say that this daemon was stopped on purpose while a run went on: nobody but a person brings one back."""
        try:
            write_file(self.system, self.root.join(STOPPED), b"", self.author)
        except OSError as exc:
            logger.warning("stopped_not_marked error=%s", exc)

    def unmark_stopped(self) -> None:
        """A daemon was wanted again."""
        with contextlib.suppress(OSError):
            os.unlink(self.root.join(STOPPED))

    def _make_own_folder(self, still_ours: Callable[[], bool]) -> None:
        if not still_ours():
            raise OSError(errno.EACCES, "the repository is not ours any more")
        try:
            ensure_folder(self.root, self.uid, self.author, self.system)
        except NotWritable as exc:
            raise OSError(exc.errno or errno.EACCES, exc.message) from exc

    def _locator(self, socket: str) -> bytes:
        return locator_bytes(
            Locator(
                socket=socket,
                pid=self.author.pid,
                start_time=self.author.start_time,
                boot_id=boot_id(),
                host=os.uname().nodename,
                instance=self.instance,
                daemon_version=__version__,
                protocol_min=OLDEST_PROTOCOL_VERSION,
                protocol_max=PROTOCOL_VERSION,
            )
        )


def database_path(root: Root, home: str, name: str) -> str:
    """Where a database is: in our folder, or, as SQLite opens no long paths, in the user's state folder."""
    path = f"{root.join(FOLDER)}/{name}"
    return path if _is_short(path) else f"{home}/.local/state/cueloopd/{root_hash(root)}/{name}"


def _is_short(path: str) -> bool:
    try:
        return len(os.fsencode(os.path.realpath(path))) <= LONGEST_PATH
    except OSError:  # longer than any path that the system resolves
        return False


def _content(path: str) -> bytes | None:
    try:
        return read_regular(path)[0]
    except OSError:
        return None

"""The folders of all runs: making, finding, listing and removing them."""

from __future__ import annotations

import contextlib
import os
import re
import shutil

from cueloop_daemon.runs.shim.folder import Folder
from cueloop_daemon.shim.wire import RUNS
from cueloop_daemon.store.not_writable import not_writable
from cueloop_protocol.roots import Root, shown

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}", re.ASCII)
_GONE = "gone-"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class RunFolders:
    """`.cueloop/cache/cueloopd/runs`, whose parent must exist. `uid` owns all that is believed. Blocking."""

    def __init__(self, root: Root, uid: int) -> None:
        self._root = root
        self._uid = uid

    def make(self, run_id: str) -> Folder:
        """The run's folder, 0700, made if it is missing. Raises NotWritable, and ValueError for what is no run's id."""
        _check(run_id)
        try:
            for parts in ((RUNS,), (RUNS, run_id)):
                with contextlib.suppress(FileExistsError):
                    os.mkdir(self._root.join(*parts), 0o700)
            return self._open(run_id)
        except OSError as exc:
            raise not_writable(exc, shown(f"{self._path(run_id)}"), "make") from exc

    def find(self, run_id: str) -> Folder | None:
        """The run's folder; None if there is none. Raises OSError where one is there and cannot be used."""
        if not _RUN_ID.fullmatch(run_id) or run_id.startswith(_GONE):
            return None
        try:
            return self._open(run_id)
        except FileNotFoundError:
            return None

    def is_alive(self, run_id: str) -> bool | None:
        """Whether the run's shim lives; None where there is no such run here. Raises OSError."""
        folder = self.find(run_id)
        if folder is None:
            return None
        with contextlib.closing(folder):
            return folder.is_held()

    def names(self) -> tuple[str, ...]:
        """The ids of all runs that have a folder."""
        return tuple(name for name in self._names() if _RUN_ID.fullmatch(name) and not name.startswith(_GONE))

    def retire(self, run_id: str) -> None:
        """Take the run's folder out of sight, before its rows are removed; `remove_retired` removes it. Raises NotWritable."""
        _check(run_id)
        try:
            os.rename(self._root.join(RUNS, run_id), self._root.join(RUNS, f"{_GONE}{run_id}"))
        except FileNotFoundError:
            return
        except OSError as exc:
            raise not_writable(exc, shown(self._path(run_id)), "remove") from exc

    def remove_retired(self) -> None:
        """Remove what is out of sight, also what an earlier daemon did not come to. What fails is left for the next time."""
        names = [name for name in self._names() if name.startswith(_GONE)]
        if not names:
            return
        with contextlib.ExitStack() as fds, contextlib.suppress(OSError):
            home = os.open(self._root.join(RUNS), _FOLDER)
            fds.callback(os.close, home)
            for name in names:
                shutil.rmtree(name, ignore_errors=True, dir_fd=home)

    def _open(self, run_id: str) -> Folder:
        fd = os.open(self._root.join(RUNS, run_id), _FOLDER)
        try:
            status = os.fstat(fd)
            if status.st_uid != self._uid:
                raise PermissionError(1, "it belongs to another user", self._path(run_id))
            if status.st_mode & 0o777 != 0o700:
                os.fchmod(fd, 0o700)
        except OSError:
            os.close(fd)
            raise
        return Folder(run_id, self._path(run_id), fd, self._uid)

    def _path(self, run_id: str) -> str:
        return f"{self._root.path}/{RUNS}/{run_id}"

    def _names(self) -> list[str]:
        try:
            return sorted(os.listdir(self._root.join(RUNS)))
        except OSError:
            return []


def _check(run_id: str) -> None:
    if not _RUN_ID.fullmatch(run_id) or run_id.startswith(_GONE):
        raise ValueError(f"{run_id[:100]!r} is no run's id")

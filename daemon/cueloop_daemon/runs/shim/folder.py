"""One run's folder as the daemon uses it: orders and prompts for the shim, its output, who the shim is, and the run's end.

Everything goes through one descriptor, so that a repository of any path length works and a renamed folder stays the same one.
All of it blocks for as long as the disk does; what writes raises NotWritable.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import threading
from collections.abc import Iterator, Mapping

from pydantic import BaseModel, ConfigDict, ValidationError

from cueloop_daemon.runs.shim import files
from cueloop_daemon.runs.types import Stream
from cueloop_daemon.shim.spec import LOCK_FILE, RUN_FILE, SHIM_FILE, TOMBSTONE, OrderSpec, RunSpec, file_bytes, parse_order
from cueloop_daemon.shim.wire import SEGMENT
from cueloop_daemon.store.not_writable import not_writable
from cueloop_protocol.roots import shown

CALLER_ENV = "caller-env"
"""The variables of the run's caller. Not for the shim: each order brings its whole environment, in which some must be missing."""
_SECRETS = re.compile(r"caller-env|[0-9]+\.(order|prompt|stdin)|\..*\.new", re.ASCII)
_PIECE_LIMIT = 8 * 1024 * 1024


class ShimPlace(BaseModel):
    """`shim.json`: which process the shim is, and where it listens."""

    model_config = ConfigDict(frozen=True, strict=True)

    pid: int
    start: str
    boot: str
    protocol: int
    socket: str


class Folder:
    """`runs/<id>/`. `path` is the folder's absolute path for other processes and for people; `fd` is the folder's own from now on."""

    def __init__(self, run_id: str, path: str, fd: int, uid: int, *, segment: int = SEGMENT) -> None:
        self.run_id = run_id
        self.path = path
        self._fd: int | None = fd
        self.uid = uid
        self._segment = segment
        self._lock: int | None = None
        self._locking = threading.Lock()  # one description of the file: one thread's unlocking would be another's

    def close(self) -> None:
        """Give the descriptors back, once; every other call raises OSError from now on, and touches no other file."""
        with self._locking:
            fds, self._fd, self._lock = (self._fd, self._lock), None, None
            for fd in fds:
                if fd is not None:
                    os.close(fd)

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._fd is None

    @property
    def fd(self) -> int:
        """The folder's descriptor. Raises OSError when it is closed: its number may be another file's by now."""
        if self._fd is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self._fd

    def write_run(self, spec: RunSpec) -> None:
        """`run.json`, unless it is there: a shim may have read it."""
        if not files.exists(self.fd, RUN_FILE):
            self._put(RUN_FILE, file_bytes(spec))

    def write_order(self, number: int, order: OrderSpec) -> None:
        """`<n>.order`, unless it is there: it may have been obeyed."""
        if not self._is_ordered(number):
            self._put(f"{number}.order", file_bytes(order))

    def token(self, number: int) -> str | None:
        """The token of an order; None if there is no such order."""
        data = files.get(self.fd, f"{number}.order", self.uid)
        return None if data is None else parse_order(data).token

    def write_prompt(self, number: int, text: str) -> str:
        """Keep a prompt; its absolute path. It stays as it is from the moment at which the order of this number exists."""
        return self._keep(number, "prompt", text.encode("utf-8", "surrogatepass"))

    def write_stdin(self, number: int, data: bytes) -> str:
        """Keep what the child reads on its standard input; like `write_prompt`."""
        return self._keep(number, "stdin", data)

    def write_caller_env(self, env: Mapping[str, str]) -> None:
        """Keep the variables of the run's caller while the run lives."""
        self._put(CALLER_ENV, json.dumps(dict(env)).encode("ascii"))

    def caller_env(self) -> dict[str, str] | None:
        """The variables of the run's caller; None if they were not kept or are removed. Raises OSError."""
        data = files.get(self.fd, CALLER_ENV, self.uid)
        return None if data is None else {str(name): str(value) for name, value in json.loads(data).items()}

    # --- output ---

    def read(self, number: int, stream: Stream, offset: int, limit: int) -> tuple[int, bytes]:
        """Output from the logical `offset` on, at most `limit` bytes: (where it really begins, bytes).

        What was dropped is jumped over. No bytes: there are none yet. Raises OSError.
        """
        index, inside = divmod(offset, self._segment)
        limit = min(limit, _PIECE_LIMIT)
        while not (data := self._piece(number, stream, index, inside, limit)):
            later = [one for one in self._segments(number, stream) if one > index]
            if not later:
                return offset, b""
            # A later segment exists, so this one is complete now; it may have grown since it was read.
            if data := self._piece(number, stream, index, inside, limit):
                break
            index, inside = min(later), 0
        return index * self._segment + inside, data

    def sizes(self, number: int) -> tuple[int, int]:
        """Logical sizes of a child's output, out and err, as far as it is on the disk. Raises OSError."""
        return self._size(number, "out"), self._size(number, "err")

    # --- the shim itself, and the end ---

    def shim(self) -> ShimPlace | None:
        """What the shim says of itself; None where no shim ever came that far. Raises OSError."""
        data = files.get(self.fd, SHIM_FILE, self.uid)
        try:
            return None if data is None else ShimPlace.model_validate_json(data)
        except ValidationError:
            return None

    def is_held(self) -> bool:
        """Whether a shim lives: it holds the lock of the folder from its first moment to its last. Raises OSError."""
        with self._try_lock(fcntl.LOCK_SH) as is_free:
            return not is_free

    def was_there(self) -> bool:
        """Whether a shim ever got so far as to be found."""
        return files.exists(self.fd, SHIM_FILE)

    def is_buried(self) -> bool:
        """Whether the run has a tombstone: no shim will ever begin."""
        return files.exists(self.fd, TOMBSTONE)

    def bury(self) -> bool:
        """Make sure that no shim can ever begin; False if one lives, and then nothing was done. Raises NotWritable.

        A full disk is no hindrance: without room for a tombstone the shim's instructions become it.
        """
        try:
            with self._try_lock(fcntl.LOCK_EX) as is_free:
                if is_free and not files.exists(self.fd, TOMBSTONE):
                    self._put_tombstone()
                return is_free
        except OSError as exc:
            raise not_writable(exc, shown(f"{self.path}/{TOMBSTONE}")) from exc

    def remove_secrets(self) -> None:
        """Remove environment, orders and prompts; output and records stay. Raises NotWritable after trying all.

        Of a run that is buried the shim's instructions go too: they hold the environment of the daemon that it may start.
        """
        failed: OSError | None = None
        is_buried = self.is_buried()
        for name in os.listdir(self.fd):
            if _SECRETS.fullmatch(name) or (name == RUN_FILE and is_buried):
                try:
                    os.unlink(name, dir_fd=self.fd)
                except OSError as exc:
                    failed = exc if exc.errno != errno.ENOENT else failed
        if failed is not None:
            raise not_writable(failed, shown(self.path), "remove files of") from failed

    def log_tail(self, limit: int = 2000) -> str:
        """The end of what the shim said on its standard error."""
        with contextlib.suppress(OSError):
            return (files.get(self.fd, "shim.log", self.uid) or b"")[-limit:].decode("utf-8", "replace").strip()
        return ""

    def _put_tombstone(self) -> None:
        try:
            files.put(self.fd, TOMBSTONE, b"")
        except OSError:
            with contextlib.suppress(FileNotFoundError):  # no instructions, no shim
                os.rename(RUN_FILE, TOMBSTONE, src_dir_fd=self.fd, dst_dir_fd=self.fd)

    @contextlib.contextmanager
    def _try_lock(self, how: int) -> Iterator[bool]:
        with self._locking:
            if self._lock is None:
                flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
                self._lock = os.open(LOCK_FILE, flags, 0o600, dir_fd=self.fd)
            try:
                fcntl.flock(self._lock, how | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            try:
                yield True
            finally:
                fcntl.flock(self._lock, fcntl.LOCK_UN)

    def _is_ordered(self, number: int) -> bool:
        return files.exists(self.fd, f"{number}.order")

    def _keep(self, number: int, ending: str, data: bytes) -> str:
        name = f"{number}.{ending}"
        if not (self._is_ordered(number) and files.exists(self.fd, name)):
            self._put(name, data)
        return f"{self.path}/{name}"

    def _put(self, name: str, data: bytes) -> None:
        try:
            files.put(self.fd, name, data)
        except OSError as exc:
            raise not_writable(exc, shown(f"{self.path}/{name}")) from exc

    def _segments(self, number: int, stream: str) -> list[int]:
        start = f"{number}.{stream}."
        endings = [name.removeprefix(start) for name in os.listdir(self.fd) if name.startswith(start)]
        return [int(one) for one in endings if one.isascii() and one.isdigit()]

    def _size(self, number: int, stream: str) -> int:
        for index in sorted(self._segments(number, stream), reverse=True):
            with contextlib.suppress(FileNotFoundError):
                size = os.stat(f"{number}.{stream}.{index}", dir_fd=self.fd, follow_symlinks=False).st_size
                return index * self._segment + size
        return 0

    def _piece(self, number: int, stream: str, index: int, inside: int, limit: int) -> bytes:
        """Bytes of one segment; none if it is not there or has no more."""
        name, flags = f"{number}.{stream}.{index}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            fd = os.open(name, flags, dir_fd=self.fd)
        except FileNotFoundError:
            return b""
        try:
            return os.pread(fd, min(limit, self._segment - inside), inside)
        finally:
            os.close(fd)

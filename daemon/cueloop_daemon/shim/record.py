"""What the shim did, for whoever comes after its death: `shim.jsonl`. Standard library only.

Written with `write` and no fsync: a killed process's writes stay, and after a power cut neither shim nor children are there to be
known of. The first 64 KiB are allocated beforehand, so that a full disk does not keep the next records out; a reader stops at the
first NUL. Records: `up {pid, start, boot}`, `lock {n, dev, ino, owner}` (before the folder gets its name), `unlock {n}`,
`child {n, pid, start}` (before anything of the child runs), `failed {n, stage, errno}`, `exit {n, code, signal, cause, out, err,
dropped}`, `bar {n}`, `cancelled {}`, `bye {why}`.
"""

from __future__ import annotations

import os

from cueloop_daemon.shim.lean import suppress
from cueloop_daemon.shim.spec import RECORD_FILE
from cueloop_daemon.shim.wire import encode

ALLOCATED = 64 * 1024
LONG = 32 * 1024
"""From here on what is acknowledged is dropped."""


class Record:
    """The open file. What cannot be written now is kept and written before what comes later."""

    def __init__(self, folder: int) -> None:
        self._folder = folder
        self._fd = _create(folder, RECORD_FILE)
        self._size = 0
        self._unwritten: list[bytes] = []
        self._begun = 0
        """Bytes of the first unwritten record that are there already."""

    @property
    def is_long(self) -> bool:
        """Whether it is worth writing anew."""
        return self._size > LONG

    def add(self, word: str, **fields: object) -> OSError | None:
        """Write a record; the error if it is not there yet, in which case it will be as soon as that is possible."""
        self._unwritten.append(encode(word, **fields))
        return self.flush()

    def withdraw(self) -> None:
        """Drop the record that was added last and could not be written. What is there of it is blanked."""
        self._unwritten.pop()
        if not self._unwritten and self._begun:
            self._size -= self._begun
            os.pwrite(self._fd, bytes(self._begun), self._size)  # over bytes that are there: needs no space
            self._begun = 0

    def flush(self) -> OSError | None:
        """Write what is left; the error if that fails again."""
        while self._unwritten:
            try:
                taken = os.pwrite(self._fd, self._unwritten[0][self._begun :], self._size)
            except OSError as exc:
                return exc
            self._size += taken
            self._begun += taken
            if self._begun == len(self._unwritten[0]):
                self._unwritten.pop(0)
                self._begun = 0
        return None

    def rewrite(self, records: list[bytes]) -> None:
        """Begin anew with these lines, which say all that is still to be said, in one step; the old file stays where that fails."""
        name = f"{RECORD_FILE}.new"
        data = b"".join(records)
        with suppress(OSError):
            fd = _create(self._folder, name)
            try:
                if os.pwrite(fd, data, 0) != len(data):
                    raise OSError("cut short")
                os.rename(name, RECORD_FILE, src_dir_fd=self._folder, dst_dir_fd=self._folder)
            except OSError:
                os.close(fd)
                raise
            os.close(self._fd)
            self._fd, self._size = fd, len(data)
            self._unwritten.clear()
            self._begun = 0


def _create(folder: int, name: str) -> int:
    fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    if hasattr(os, "posix_fallocate"):
        with suppress(OSError):
            os.posix_fallocate(fd, 0, ALLOCATED)
    return fd

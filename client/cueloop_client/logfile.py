"""A log that is read while others write, rotate, truncate or remove it. Standard library only."""

from __future__ import annotations

import os

CHUNK = 64 * 1024
OLDER = 9
"""How many rotated files (`.1` the youngest) are looked for; the daemon keeps three."""


def last_lines(fd: int, number: int) -> bytes:
    """The last `number` lines of the open file, which is then read up to its end."""
    end = os.lseek(fd, 0, os.SEEK_END)
    tail = b""
    start = end
    while start > 0 and tail.count(b"\n") <= number:
        size = min(CHUNK, start)
        start -= size
        tail = os.pread(fd, size, start) + tail
    lines = tail.splitlines(keepends=True)
    return b"".join(lines[-number:]) if number else b""


class Following:
    """The log at `path`: its last lines, then what is added. It need not be there yet, and may be replaced at any time."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd: int | None = None
        self._rest = b""

    def begin(self, number: int) -> bytes:
        """The last `number` lines, also of files that were rotated away, oldest first; `added` goes on after them.

        Raises FileNotFoundError if there is no log at all; `added` may be called all the same.
        """
        self._fd = _open(self._path)
        pieces = [] if self._fd is None else [last_lines(self._fd, number)]
        is_there = self._fd is not None
        for older in range(1, OLDER):
            missing = number - sum(piece.count(b"\n") for piece in pieces)
            fd = _open(f"{self._path}.{older}")
            if fd is None:
                break
            is_there = True
            try:
                pieces.append(last_lines(fd, max(0, missing)))
            finally:
                os.close(fd)
        if not is_there:
            raise FileNotFoundError(self._path)
        return b"".join(reversed(pieces))

    def added(self) -> bytes:
        """Whole lines that were added since the last call; what a file that was replaced still had comes first.

        A line that is not finished is kept until it is, or until its file was replaced. A file that became shorter was begun anew.
        """
        if self._fd is None:
            self._fd = _open(self._path)
        if self._fd is None:
            return b""
        found = self._rest + self._read(self._fd)
        for fd in self._newer(self._fd):
            self.close()
            self._fd = fd
            found = _ended(found) + self._read(fd)
        whole, newline, self._rest = found.rpartition(b"\n")
        return whole + newline

    def close(self) -> None:
        """Close the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _read(self, fd: int) -> bytes:
        """From where we stand to the end."""
        pieces = []
        if os.fstat(fd).st_size < os.lseek(fd, 0, os.SEEK_CUR):
            os.lseek(fd, 0, os.SEEK_SET)
            pieces.append(b"\n" if self._rest else b"")
        while piece := os.read(fd, CHUNK):
            pieces.append(piece)
        return b"".join(pieces)

    def _newer(self, current: int) -> list[int]:
        """Files that took the current one's place, oldest first, opened; none while it is the log, or there is no other."""
        newest = _open(self._path)
        if newest is None:
            return []
        if os.path.samestat(os.fstat(newest), os.fstat(current)):
            os.close(newest)
            return []
        found = [newest]
        for older in range(1, OLDER):
            fd = _open(f"{self._path}.{older}")
            if fd is None:
                break
            if os.path.samestat(os.fstat(fd), os.fstat(current)):
                os.close(fd)
                return found[::-1]
            found.append(fd)
        for fd in found[1:]:  # the current one is gone for good, and nobody knows what was read of the others
            os.close(fd)
        return [newest]


def _ended(data: bytes) -> bytes:
    return data if not data or data.endswith(b"\n") else data + b"\n"


def _open(path: str) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None

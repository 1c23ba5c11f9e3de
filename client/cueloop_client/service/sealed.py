"""Files that we write into a person's folders: each carries a seal, so that one that was changed since is never taken for ours.

Standard library only.
"""

from __future__ import annotations

import os
from contextlib import suppress

from cueloop_protocol.digest import hex_digest
from cueloop_protocol.frozen import Frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    State = Literal["missing", "current", "older", "changed", "foreign"]

SEAL = b"cueloop service install, sha256 "
LIMIT = 1024 * 1024


class Sealed(Frozen):
    """A file as it is to be: `content` with its seal in it."""

    path: str
    content: bytes


def seal(path: str, lines: bytes, *, opening: bytes = b"# ", closing: bytes = b"") -> Sealed:
    """The file at `path` with these lines, and at their end one more that says who wrote them. `opening`, `closing`: of a comment."""
    return Sealed(path, lines + opening + SEAL + hex_digest(lines).encode() + closing + b"\n")


def state_of(file: Sealed) -> State:
    """What stands at the file's path. `older`: we wrote it, with another content; `changed`: we did, and somebody changed it since.

    `foreign`: something that we did not write.
    """
    try:
        content = _read(file.path)
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    except OSError:
        return "foreign"
    if content == file.content:
        return "current"
    return standing(content)


def standing(content: bytes) -> State:
    """Whose the content is: `older` (ours, as it was written), `changed` or `foreign`."""
    lines, found, rest = content.rpartition(SEAL)
    if not found:
        return "foreign"
    body = lines[: lines.rfind(b"\n") + 1]
    digest, tail = rest[:64], rest[64:]
    return "older" if hex_digest(body).encode() == digest and tail.strip() in (b"", b"-->") else "changed"


def write(file: Sealed) -> None:
    """Put the file in place, whole or not at all, and the folders that it needs. Raises OSError."""
    folder, name = os.path.split(file.path)
    os.makedirs(folder, exist_ok=True)
    temporary = f"{folder}/.{name[:200]}.{os.getpid()}.new"
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        with open(fd, "wb") as out:
            out.write(file.content)
            out.flush()
            os.fsync(out.fileno())
        os.rename(temporary, file.path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def read(path: str) -> bytes | None:
    """What is in the file; None if there is none that can be read."""
    try:
        return _read(path)
    except OSError:
        return None


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        return file.read(LIMIT)

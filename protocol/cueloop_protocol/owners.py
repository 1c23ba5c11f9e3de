"""What a daemon writes into its lock in `/tmp/cueloopd-<uid>/`, for whoever looks for daemons. Standard library only.

The lock itself decides who owns a repository; this text only says so. A root's path may hold any byte but NUL and be longer than a
system call takes, so it is one word of printable ASCII: other bytes, blanks and `%` as `%XX`.
"""

from __future__ import annotations

import os
import stat

from cueloop_protocol.frozen import Frozen
from cueloop_protocol.identity import is_pid, is_same_process
from cueloop_protocol.place import PlaceError, check_private_folder, local_folder

ENDING = ".lock"
TEXT_LIMIT = 1024 * 1024
"""Bytes of a signed lock that are read; the longest path that is known to work, every byte of it escaped, is 200 KB."""
KEY_LENGTH = 16
_DIGITS = frozenset("0123456789abcdef")


class Owner(Frozen):
    """A live process that signed the local lock of a root. `key` is the root's hash; `start_time`, `boot_id` as in `identity`.

    `root` and `folder` (device and inode of the root when it was taken) are None where an older daemon did not write them.
    """

    key: str
    pid: int
    start_time: str
    boot_id: str
    root: str | None
    folder: str | None


def path_word(path: str) -> str:
    """The path as one word of printable ASCII; `word_path` gives it back byte for byte."""
    return "".join(chr(byte) if 32 < byte < 127 and byte != 37 else f"%{byte:02X}" for byte in os.fsencode(path))


def word_path(word: str) -> str | None:
    """The path that `path_word` made this of; None if it did not."""
    first, *rest = word.split("%")
    try:
        data = first.encode("ascii") + b"".join(bytes.fromhex(part[:2]) + part[2:].encode("ascii") for part in rest)
    except ValueError:
        return None
    path = os.fsdecode(data)
    return path if path.startswith("/") and path_word(path) == word else None


def live_owners(uid: int) -> list[Owner]:
    """The live daemons of this user, boot and machine that signed their local lock, by key.

    Nothing is locked, so that no daemon that starts just now is disturbed; one that has not signed yet is not told. A folder that
    is not this user's alone has none.
    """
    folder = local_folder(uid)
    try:
        check_private_folder(folder, uid)
        names = sorted(os.listdir(folder))
    except (PlaceError, OSError):
        return []
    keys = [name.removesuffix(ENDING) for name in names if name.endswith(ENDING)]
    found = [read_owner(folder, key, uid) for key in keys if is_key(key)]
    return [owner for owner in found if owner is not None]


def owner_of(key: str, uid: int) -> Owner | None:
    """The live daemon of this user that signed the local lock of this root; None if there is none, or the folder is not ours alone."""
    folder = local_folder(uid)
    try:
        check_private_folder(folder, uid)
    except PlaceError:
        return None
    return read_owner(folder, key, uid)


def is_locked(key: str, uid: int) -> bool:
    """Whether somebody holds the local lock of this root, as far as the system tells (Linux); nothing is locked to find out."""
    try:
        found = os.lstat(os.path.join(local_folder(uid), key + ENDING))
        with open("/proc/locks", encoding="ascii") as file:
            lines = [line.split() for line in file]
    except OSError:
        return False
    name = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    return any("FLOCK" in words and "->" not in words and name in words for words in lines)


def read_owner(folder: str, key: str, uid: int) -> Owner | None:
    """The live process that signed the lock of `key` in `folder`; None if there is none."""
    record = _record(os.path.join(folder, key + ENDING), uid)
    pid = record.get("pid", "")
    number = int(pid) if pid.isascii() and pid.isdigit() and len(pid) < 11 else 0
    start, boot = record.get("start", ""), record.get("boot", "")
    if not is_pid(number) or record.get("host") != os.uname().nodename or not is_same_process(number, start, boot):
        return None
    return Owner(key, number, start, boot, word_path(record.get("root", "")), record.get("folder"))


def is_key(text: str) -> bool:
    """Whether the text can be a root's hash."""
    return len(text) == KEY_LENGTH and set(text) <= _DIGITS


def _record(path: str, uid: int) -> dict[str, str]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return {}
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != uid:
            return {}
        lines = os.read(fd, TEXT_LIMIT).decode("utf-8", "replace").splitlines()
    except OSError:
        return {}
    finally:
        os.close(fd)
    return {key.strip(): value.strip() for key, colon, value in (line.partition(":") for line in lines) if colon}

"""Where the daemon of a repository is found (design section 4, "Place"). Standard library only.

The socket is in a folder named by a hash of the root's real path, so its length does not depend on the repository's. The locator
in the repository wins over the computed place, but it is repository content: believed only after the checks of `read_locator`.
"""

from __future__ import annotations

import json
import os
import stat
import sys

from cueloop_protocol.digest import hex_digest
from cueloop_protocol.frozen import Frozen
from cueloop_protocol.identity import is_same_process
from cueloop_protocol.roots import Root, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = ".cueloop/cache/cueloopd"
"""What is ours alone, below the root."""
SOCKET = "d.sock"
LOCATOR = "locator.json"
SOCKET_LIMIT = 103 if sys.platform == "darwin" else 107
"""Bytes of a Unix socket's path without the closing NUL."""
NAME_ROOM = 16
"""Bytes that a name in the socket's folder may take: the listener binds under a temporary one first."""
LOCATOR_LIMIT = 16 * 1024


class PlaceError(Exception):
    """A place that must be ours alone is not, or cannot be made; `message` is one plain sentence, `remedy` another.

    `number` is the system's error number where there is one.
    """

    def __init__(self, message: str, remedy: str, number: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.number = number


class Locator(Frozen):
    """What a daemon says of itself in its repository. `start_time`, `boot_id` as in `identity`; protocols: an inclusive range."""

    socket: str
    pid: int
    start_time: str
    boot_id: str
    host: str
    instance: str
    daemon_version: str
    protocol_min: int
    protocol_max: int


def root_hash(root: Root) -> str:
    """Sixteen hexadecimal digits for the bytes of the root's real path; the same in every process, locale and environment."""
    return hex_digest(os.fsencode(root.path))[:16]


def local_folder(uid: int) -> str:
    """The folder that does not depend on anybody's environment."""
    return f"/tmp/cueloopd-{uid}"


def local_lock_path(root: Root, uid: int) -> str:
    """The lock on a local disk, the same whatever `TMPDIR` or `XDG_RUNTIME_DIR` say."""
    return f"{local_folder(uid)}/{root_hash(root)}.lock"


def runtime_folders(environ: Mapping[str, str], uid: int) -> tuple[str, ...]:
    """Where this user's sockets may be, best first: the session's runtime folder, if it is ours, 0700 and short enough, and `/tmp`.

    Last, whatever the environment says, where a service manager listens. Only the first is made where it is missing.
    """
    preferred = environ.get("TMPDIR" if sys.platform == "darwin" else "XDG_RUNTIME_DIR", "")
    name = f"cueloopd-{uid}" if sys.platform == "darwin" else "cueloopd"
    folder = os.path.join(preferred, name)
    usable = os.path.isabs(preferred) and fits(os.path.join(folder, "0" * 16)) and _is_own_folder(preferred, uid)
    folders = (folder, local_folder(uid)) if usable else (local_folder(uid),)
    managed = service_folder(uid)
    return folders if managed is None or managed in folders else (*folders, managed)


def service_folder(uid: int) -> str | None:
    """Where the user's service manager listens for all of the user's processes; None where this user has no such place.

    A login, cron or ssh may lack `XDG_RUNTIME_DIR`. On macOS `TMPDIR` and `/tmp` are swept, and launchd makes no folders.
    """
    if sys.platform == "darwin":
        import pwd

        try:
            return os.path.join(pwd.getpwuid(uid).pw_dir, "Library/Caches/cueloopd")
        except KeyError:
            return None
    return f"/run/user/{uid}/cueloopd" if _is_own_folder(f"/run/user/{uid}", uid) else None


def runtime_folder(environ: Mapping[str, str], uid: int) -> str:
    """The folder in which this environment's daemon makes its socket folder."""
    return runtime_folders(environ, uid)[0]


def fits(folder: str) -> bool:
    """Whether a socket in `folder` can be bound: bytes count, not characters."""
    return len(os.fsencode(folder)) + 1 + NAME_ROOM <= SOCKET_LIMIT


def socket_folder(root: Root, environ: Mapping[str, str], uid: int) -> str:
    """The folder of this root's socket; not created here."""
    return os.path.join(runtime_folder(environ, uid), root_hash(root))


def socket_path(root: Root, environ: Mapping[str, str], uid: int) -> str:
    """The computed place of this root's socket."""
    return os.path.join(socket_folder(root, environ, uid), SOCKET)


def ensure_socket_folder(root: Root, environ: Mapping[str, str], uid: int) -> str:
    """Create what is missing of the socket's folder, 0700 from its first moment, and check the rest. Raises PlaceError."""
    folder = socket_folder(root, environ, uid)
    ensure_private_folder(os.path.dirname(folder), uid)
    ensure_private_folder(folder, uid)
    return folder


def ensure_private_folder(folder: str, uid: int) -> None:
    """`folder` exists, is a folder and no link, belongs to `uid`, and nobody else may enter it. Raises PlaceError."""
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    except OSError as exc:
        raise PlaceError(
            f"the folder {shown(folder)} cannot be created: {exc.strerror}",
            "free space there, or make its parent writable",
            exc.errno,
        ) from exc
    else:
        os.chmod(folder, 0o700)  # a umask may have taken bits from ourselves; it can never have added any
    check_private_folder(folder, uid)


def check_private_folder(folder: str, uid: int) -> None:
    """Like `ensure_private_folder`, but creates nothing. Raises PlaceError."""
    name = shown(folder)
    try:
        status = os.lstat(folder)
    except OSError as exc:
        raise PlaceError(
            f"the folder {name} cannot be looked at: {exc.strerror}",
            f"check the permissions of {shown(os.path.dirname(folder))}",
            exc.errno,
        ) from exc
    if not stat.S_ISDIR(status.st_mode):
        raise PlaceError(f"{name} is not a folder", f"remove it: rm {name}")
    if status.st_uid != uid:
        raise PlaceError(
            f"{name} belongs to another user (uid {status.st_uid})", "ask that user or an administrator to remove it"
        )
    if stat.S_IMODE(status.st_mode) != 0o700:
        raise PlaceError(f"{name} is open to others (mode {stat.S_IMODE(status.st_mode):04o})", f"close it: chmod 700 {name}")


def locator_bytes(locator: Locator) -> bytes:
    """The locator file's content."""
    return json.dumps(vars(locator), indent=2, ensure_ascii=True).encode("ascii") + b"\n"


def parse_locator(data: bytes) -> Locator | None:
    """The locator in `data`; None if it is none. Keys of a newer version are ignored."""
    try:
        raw: object = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, dict):
        return None
    texts = [raw.get(key) for key in ("socket", "start_time", "boot_id", "host", "instance", "daemon_version")]
    numbers = [raw.get(key) for key in ("pid", "protocol_min", "protocol_max")]
    if not all(isinstance(text, str) and text for text in texts) or not all(type(number) is int for number in numbers):
        return None
    return Locator(**{key: raw[key] for key in Locator.__annotations__})


def read_locator(root: Root, uid: int) -> Locator | None:
    """The locator of a live daemon of this root, this user and this boot of this machine; None if there is none to be believed.

    The file must be a regular one of `uid`, the socket's folder private and named by this root's hash. The peer's uid
    is still to be checked after connecting.
    """
    data = _own_regular_file(root.join(FOLDER, LOCATOR), uid)
    locator = parse_locator(data) if data is not None else None
    if locator is None or not names_our_place(locator.socket, root, uid) or locator.host != os.uname().nodename:
        return None
    return locator if is_same_process(locator.pid, locator.start_time, locator.boot_id) else None


def find_socket(root: Root, environ: Mapping[str, str], uid: int) -> tuple[str, ...]:
    """Sockets that may be this root's daemon, most likely first, each in a private folder; check the peer's uid too."""
    located = read_locator(root, uid)
    places = [located.socket] if located else []
    computed = [os.path.join(folder, root_hash(root), SOCKET) for folder in runtime_folders(environ, uid)]
    places += [path for path in computed if path not in places and names_our_place(path, root, uid)]
    return tuple(path for path in places if _is_socket(path))


def names_our_place(path: str, root: Root, uid: int) -> bool:
    """Whether a socket at `path` can be this root's: named as ours is, in a private folder of `uid` with this root's hash."""
    folder, name = os.path.split(path)
    if not os.path.isabs(path) or name != SOCKET or not fits(folder) or os.path.basename(folder) != root_hash(root):
        return False
    try:
        check_private_folder(folder, uid)
    except PlaceError:
        return False
    return True


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False


def _is_own_folder(path: str, uid: int) -> bool:
    try:
        status = os.stat(path)
    except OSError:
        return False
    # As the XDG base directory specification demands it; macOS makes its own so, too.
    return stat.S_ISDIR(status.st_mode) and status.st_uid == uid and stat.S_IMODE(status.st_mode) == 0o700


def _own_regular_file(path: str, uid: int) -> bytes | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != uid or status.st_size > LOCATOR_LIMIT:
            return None
        return os.read(fd, LOCATOR_LIMIT)
    except OSError:
        return None
    finally:
        os.close(fd)

"""The places that must be there, ours, writable and private."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
from collections.abc import Iterator
from shlex import quote
from threading import Thread

from cueloop_daemon.doctor.kinds import found
from cueloop_daemon.doctor.sight import Sight
from cueloop_protocol.documents.doctor import Finding
from cueloop_protocol.place import FOLDER, fits, root_hash
from cueloop_protocol.roots import shown

FULL, NEARLY_FULL = 1024 * 1024, 64 * 1024 * 1024
"""Bytes that must be free: for the end of a run to be written; for a run's record and output."""
_NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL}
_LOCK_SECONDS = 2.0


def folders(sight: Sight) -> Iterator[Finding]:
    """`.cueloop`, its cache, and our folder in it: from the outside in, up to the first that is not as it must be."""
    for name in (".cueloop", ".cueloop/cache", FOLDER):
        path, text = sight.root.join(name), sight.seen(name)
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            if name == ".cueloop":
                yield found("no-cueloop-folder", f"{sight.seen()} has no .cueloop folder.", path=text)
            return
        except OSError as exc:
            yield found("folder-not-writable", f"{text} cannot be looked at: {exc.strerror}.", path=text)
            return
        if problem := _in_the_way(sight, path, status, is_ours=name == FOLDER):
            yield found("folder-in-the-way", f"{text} {problem}.", path=text)
            return
        if name == FOLDER and status.st_uid != sight.uid:
            fix = f"sudo chown -R {sight.uid} {quote(text)}"
            yield found("folder-foreign", f"{text} belongs to another user (uid {status.st_uid}).", fix=fix, path=text)
            return
        if not os.access(path, os.W_OK | os.X_OK):
            fix = f"chmod u+rwx {quote(text)} (if it is yours, and the file system is not mounted read-only)"
            yield found("folder-not-writable", f"{text} may not be written.", fix=fix, path=text)
            return


def _in_the_way(sight: Sight, path: str, status: os.stat_result, *, is_ours: bool) -> str | None:
    if stat.S_ISLNK(status.st_mode):
        inside = os.path.realpath(sight.root.base)
        leads_out = os.path.commonpath((inside, os.path.realpath(path))) != inside
        return "is a link that leads elsewhere" if is_ours or leads_out or not os.path.isdir(path) else None
    return None if stat.S_ISDIR(status.st_mode) else "is not a folder"


def room(sight: Sight) -> Iterator[Finding]:
    """Whether there is room where we write: in the repository and in the folder of the locks."""
    devices: set[int] = set()
    for path, text in ((sight.root.join(".cueloop"), sight.seen(".cueloop")), (sight.local, sight.local)):
        try:
            device, disk = os.stat(path).st_dev, sight.statvfs(path)
        except OSError:
            continue
        if device in devices:
            continue
        devices.add(device)
        free = disk.f_bavail * disk.f_frsize
        if free < FULL or (disk.f_files > 0 and disk.f_favail == 0):
            what = f"{free // 1024} KiB" if free < FULL else "no inodes"
            yield found("disk-full", f"The file system of {text} has {what} left.", path=text)
        elif free < NEARLY_FULL:
            yield found("disk-nearly-full", f"The file system of {text} has {free // (1024 * 1024)} MiB left.", path=text)


def locks(sight: Sight) -> Iterator[Finding]:
    """Whether files can be locked here: tried, shared and without waiting, on a file that nobody ever locks."""
    path = sight.root.join(".cueloop", "queue.jsonc")
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    failed: list[int] = [errno.ENOLCK]  # what counts if the call hangs

    def try_it() -> None:
        try:
            sight.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            failed[0] = 0
        except OSError as exc:
            failed[0] = exc.errno or 0
        finally:
            os.close(fd)  # and with it the lock

    thread = Thread(target=try_it, daemon=True)
    thread.start()
    thread.join(_LOCK_SECONDS)
    if failed[0] in _NO_LOCKS:
        yield found("locks-unsupported", f"Files in {sight.seen('.cueloop')} cannot be locked: {os.strerror(failed[0])}.")


def private_folders(sight: Sight) -> Iterator[Finding]:
    """The folders that others must not be able to enter or to have made."""
    places = [sight.local, f"{sight.local}/{root_hash(sight.root)}"]
    runtime = _runtime(sight)
    if runtime is not None and runtime[1] is None:
        places += [runtime[0], f"{runtime[0]}/{root_hash(sight.root)}"]
    for place in places:
        try:
            status = os.lstat(place)
        except OSError:
            continue
        name = shown(place)
        if not stat.S_ISDIR(status.st_mode):
            kind = "a link" if stat.S_ISLNK(status.st_mode) else "a file"
            yield found("local-folder-in-the-way", f"{name} is {kind}, not a folder.", fix=f"rm {quote(name)}", path=name)
        elif status.st_uid != sight.uid:
            yield found("local-folder-foreign", f"{name} belongs to another user (uid {status.st_uid}).", path=name)
        elif (mode := stat.S_IMODE(status.st_mode)) != 0o700:
            yield found(
                "local-folder-open", f"{name} has the mode {mode:04o}, not 0700.", fix=f"chmod 700 {quote(name)}", path=name
            )


def runtime_folder(sight: Sight) -> Iterator[Finding]:
    """The session's runtime folder, where it is set and not used."""
    runtime = _runtime(sight)
    if runtime is not None and runtime[1] is not None:
        code, message = runtime[1]
        yield found(code, message, path=shown(runtime[0]))


def _runtime(sight: Sight) -> tuple[str, tuple[str, str] | None] | None:
    """Our folder in the runtime folder, and why it is not used: a code and a sentence. None where none is set."""
    variable = "TMPDIR" if sys.platform == "darwin" else "XDG_RUNTIME_DIR"
    base = sight.environ.get(variable, "")
    if not base:
        return None
    folder = os.path.join(base, f"cueloopd-{sight.uid}" if sys.platform == "darwin" else "cueloopd")
    if not os.path.isabs(base):
        return folder, ("runtime-folder-unsafe", f"{variable} is {shown(base)!r}, which is no absolute path.")
    try:
        status = os.stat(base)
    except OSError as exc:
        return folder, ("runtime-folder-unsafe", f"{variable} names {shown(base)}, which cannot be used: {exc.strerror}.")
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != sight.uid or stat.S_IMODE(status.st_mode) != 0o700:
        what = f"mode {stat.S_IMODE(status.st_mode):04o}, uid {status.st_uid}"
        return folder, (
            "runtime-folder-unsafe",
            f"{variable} names {shown(base)}, which is not a private folder of yours ({what}).",
        )
    if not fits(os.path.join(folder, "0" * 16)):
        return folder, ("socket-path-long", f"{variable} names {shown(base)}, whose path is too long for a socket.")
    return folder, None

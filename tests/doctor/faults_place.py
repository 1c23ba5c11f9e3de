"""Faults of places, and how to mend them."""

from __future__ import annotations

import errno
import os
import shutil
from types import SimpleNamespace

from doctor.fault import Fault
from doctor.lab import Lab
from support.repository import queue


def _no_folder(lab: Lab) -> None:
    shutil.rmtree(lab.repository.folder)


def _init(lab: Lab) -> None:
    lab.repository.cache.mkdir(parents=True)
    lab.repository.queue.write_bytes(queue())


def _file_as_cache(lab: Lab) -> None:
    lab.repository.cache.rmdir()
    lab.repository.cache.write_text("")


def _linked_folder(lab: Lab) -> None:
    (lab.world.folder / "elsewhere").mkdir()
    lab.repository.ours.symlink_to(lab.world.folder / "elsewhere")


def _as_another(lab: Lab) -> None:
    """What is there belongs to another user than the one who asks."""
    lab.uid += 1
    del lab.environ["XDG_RUNTIME_DIR"]


def _foreign_folder(lab: Lab) -> None:
    lab.repository.ours.mkdir(0o700)
    _as_another(lab)


def _read_only(lab: Lab) -> None:
    lab.repository.cache.chmod(0o555)


def _disk(free: int, inodes: int = 1000) -> SimpleNamespace:
    return SimpleNamespace(f_bavail=free, f_frsize=1, f_files=1000, f_favail=inodes)


def _no_locks(fd: int, how: int) -> None:
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


def _local(lab: Lab, mode: int = 0o700) -> None:
    lab.local.mkdir(mode)
    lab.local.chmod(mode)


def _foreign_local(lab: Lab) -> None:
    _local(lab)
    _as_another(lab)


def _long_runtime(lab: Lab) -> None:
    folder = lab.world.folder / ("r" * 90)
    folder.mkdir(0o700)
    lab.environ["XDG_RUNTIME_DIR"] = str(folder)


def _make_room(lab: Lab) -> None:
    lab.changed["statvfs"] = lambda path: _disk(2**40)


FAULTS = (
    Fault("no folder", "no-cueloop-folder", _no_folder, _init, ("cueloop init",)),
    Fault("cache is a file", "folder-in-the-way", _file_as_cache, lambda lab: lab.repository.cache.unlink(), (".cueloop/cache",)),
    Fault("our folder is a link", "folder-in-the-way", _linked_folder, lambda lab: lab.repository.ours.unlink(), ("a link",)),
    Fault("our folder is another's", "folder-foreign", _foreign_folder, None, ("chown",)),
    Fault(
        "read-only cache",
        "folder-not-writable",
        _read_only,
        lambda lab: lab.repository.cache.chmod(0o755),
        ("chmod",),
        is_command=True,
    ),
    Fault("full disk", "disk-full", lambda lab: lab.changed.update(statvfs=lambda path: _disk(1000)), _make_room, ("KiB",)),
    Fault(
        "no inodes", "disk-full", lambda lab: lab.changed.update(statvfs=lambda path: _disk(2**40, 0)), _make_room, ("inodes",)
    ),
    Fault(
        "little room",
        "disk-nearly-full",
        lambda lab: lab.changed.update(statvfs=lambda path: _disk(5 << 20)),
        _make_room,
        ("5 MiB",),
    ),
    Fault("no locks", "locks-unsupported", lambda lab: lab.changed.update(flock=_no_locks), None, ("local disk",)),
    Fault(
        "locks: a link",
        "local-folder-in-the-way",
        lambda lab: lab.local.symlink_to("/tmp"),
        lambda lab: lab.local.unlink(),
        ("a link",),
    ),
    Fault("locks: a file", "local-folder-in-the-way", lambda lab: lab.local.touch(), lambda lab: lab.local.unlink(), ("a file",)),
    Fault("locks: another's", "local-folder-foreign", _foreign_local, None, ("another user",)),
    Fault("locks: open", "local-folder-open", lambda lab: _local(lab, 0o755), lambda lab: lab.local.chmod(0o700), ("chmod 700",)),
    Fault(
        "runtime: open",
        "runtime-folder-unsafe",
        lambda lab: (lab.world.folder / "run").chmod(0o755),
        lambda lab: (lab.world.folder / "run").chmod(0o700),
        ("0755",),
    ),
    Fault(
        "runtime: gone",
        "runtime-folder-unsafe",
        lambda lab: (lab.world.folder / "run").rmdir(),
        lambda lab: (lab.world.folder / "run").mkdir(0o700),
        ("XDG_RUNTIME_DIR",),
    ),
    Fault(
        "runtime: relative",
        "runtime-folder-unsafe",
        lambda lab: lab.environ.update(XDG_RUNTIME_DIR="run"),
        lambda lab: lab.environ.pop("XDG_RUNTIME_DIR"),
        ("absolute",),
    ),
    Fault("runtime: long", "socket-path-long", _long_runtime, None, ("too long",)),
)

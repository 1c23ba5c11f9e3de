"""The processes of this machine, as far as a run's leftovers are looked for among them. Everything here is only a reading."""

from __future__ import annotations

import contextlib
import os
import struct
import sys
from collections.abc import Iterator
from typing import Protocol

from cueloop_protocol.identity import is_pid, process_start_time
from cueloop_protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class Process:
    """A live process, no zombie. `start` as `cueloop_protocol.identity` words it, `session` the pid that its session began with."""

    pid: int
    start: str
    parent: int
    session: int
    name: str


class Processes(Protocol):
    """What there is."""

    def of(self, uid: int) -> Iterator[Process]:
        """The processes of a user."""
        ...

    def has_variable(self, pid: int, entry: bytes) -> bool:
        """Whether `NAME=value` is in the environment with which the process was executed; False where that cannot be read."""
        ...


def system_processes() -> Processes:
    """The real ones."""
    return Darwin() if sys.platform == "darwin" else Linux()


class Linux:
    """By `/proc`."""

    def of(self, uid: int) -> Iterator[Process]:
        for entry in os.listdir("/proc"):
            if entry.isdigit() and is_pid(int(entry)):
                with contextlib.suppress(OSError):
                    found = self._look(int(entry), uid)
                    if found is not None:
                        yield found

    def has_variable(self, pid: int, entry: bytes) -> bool:
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                return entry in file.read().split(b"\0")
        except OSError:
            return False

    def _look(self, pid: int, uid: int) -> Process | None:
        # The folder's owner is root for one that changed its identity: that one is not the user's.
        if os.stat(f"/proc/{pid}").st_uid != uid:
            return None
        with open(f"/proc/{pid}/stat", "rb") as file:
            data = file.read()
        opening, closing = data.find(b"("), data.rfind(b")")
        fields = data[closing + 1 :].split()
        if len(fields) < 20 or fields[0] in (b"Z", b"X", b"x"):
            return None
        name = data[opening + 1 : closing].decode("utf-8", "replace")
        return Process(pid, fields[19].decode("ascii"), int(fields[1]), int(fields[3]), name)


_ALL_PIDS = 1
_BSDINFO = 3
_ZOMBIE = 5
_CTL_KERN = 1
_KERN_PROCARGS2 = 49


class Darwin:
    """By libproc and sysctl."""

    def of(self, uid: int) -> Iterator[Process]:
        import ctypes

        library = ctypes.CDLL("/usr/lib/libproc.dylib")
        pids = (ctypes.c_int * 65536)()
        filled = library.proc_listpids(_ALL_PIDS, ctypes.c_uint32(0), pids, ctypes.sizeof(pids))
        buffer = ctypes.create_string_buffer(136)
        for pid in pids[: max(0, filled) // ctypes.sizeof(ctypes.c_int)]:
            if not is_pid(pid) or library.proc_pidinfo(pid, _BSDINFO, ctypes.c_uint64(0), buffer, 136) != 136:
                continue
            # struct proc_bsdinfo: status at 4, parent at 16, real uid at 28, name of 16 bytes at 48
            status, parent, owner = (struct.unpack_from("I", buffer, at)[0] for at in (4, 16, 28))
            start = process_start_time(pid)
            if status != _ZOMBIE and owner == uid and start is not None:
                with contextlib.suppress(OSError):
                    name = buffer.raw[48:64].partition(b"\0")[0].decode("utf-8", "replace")
                    yield Process(pid, start, parent, os.getsid(pid), name)

    def has_variable(self, pid: int, entry: bytes) -> bool:
        import ctypes

        wanted = (ctypes.c_int * 3)(_CTL_KERN, _KERN_PROCARGS2, pid)
        buffer, size = ctypes.create_string_buffer(1024 * 1024), ctypes.c_size_t(1024 * 1024)
        if ctypes.CDLL(None).sysctl(wanted, 3, buffer, ctypes.byref(size), None, ctypes.c_size_t(0)):
            return False
        return entry in environment_of(buffer.raw[: size.value])


def environment_of(arguments: bytes) -> list[bytes]:
    """The environment in what macOS tells of a process: the count of arguments, the program, NULs, arguments, environment."""
    if len(arguments) < 4:
        return []
    (count,) = struct.unpack_from("i", arguments)
    _program, _, rest = arguments[4:].partition(b"\0")
    texts = rest.lstrip(b"\0").split(b"\0")
    return texts[max(0, count) :]

"""Which process is meant: a number alone is no identity, since numbers are used again. Standard library only.

A pid counts only together with its start time and the boot it belongs to; 0, 1, negatives and what is no int never reach a kill.
"""

from __future__ import annotations

import os
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from socket import socket
else:
    import _signal as signal  # the same without its enumerations, which take longer to load than all else here

PID_LIMIT = 2**31 - 1


def is_pid(value: object) -> bool:
    """Whether `value` can be the pid of a process of ours: an int (no bool) above 1 that fits a `pid_t`."""
    return type(value) is int and 1 < value <= PID_LIMIT


def process_start_time(pid: int) -> str | None:
    """When `pid` started, as an opaque text that is equal only for the same process of the same boot; None: no such live process.

    A zombie is not alive. Linux: clock ticks since boot; macOS: seconds since 1970 with microseconds.
    """
    if not is_pid(pid):
        return None
    return _start_time_darwin(pid) if sys.platform == "darwin" else _start_time_linux(pid)


def boot_id() -> str:
    """A text that changes with each boot of this machine; empty if the system does not tell."""
    if sys.platform == "darwin":
        return _boot_id_darwin()
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def is_same_process(pid: int, start_time: str, boot: str) -> bool:
    """Whether the process that was recorded so still lives. An empty record never does."""
    return bool(start_time) and boot == boot_id() and process_start_time(pid) == start_time


def send_signal(pid: int, start_time: str, boot: str, number: int) -> bool:
    """Signal the recorded process, and only that one; False if it is gone. Raises PermissionError if it is not ours."""
    if not is_pid(pid):
        return False
    try:
        if sys.platform != "linux":
            if not is_same_process(pid, start_time, boot):
                return False
            os.kill(pid, number)
            return True
        # The descriptor pins the process: what is verified is what is signalled, even if it dies in between.
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        if not is_same_process(pid, start_time, boot):
            return False
        signal.pidfd_send_signal(fd, number)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)


def peer_uid(sock: socket) -> int:
    """The user at the other end of a connected Unix socket. Raises OSError."""
    if sys.platform == "darwin":
        version, uid = struct.unpack_from("II", sock.getsockopt(0, 1, 76))  # SOL_LOCAL, LOCAL_PEERCRED: struct xucred
        if version != 0:
            raise OSError(f"unknown credentials version {version}")
        return int(uid)
    return _peer_linux(sock)[1]


def peer_pid(sock: socket) -> int | None:
    """The process at the other end of a connected Unix socket; None if the system does not tell. Raises OSError."""
    if sys.platform == "darwin":
        (pid,) = struct.unpack("i", sock.getsockopt(0, 2, 4))  # SOL_LOCAL, LOCAL_PEERPID
    else:
        pid = _peer_linux(sock)[0]
    return int(pid) or None


def _peer_linux(sock: socket) -> tuple[int, int]:
    import socket as sockets

    pid, uid, _ = struct.unpack("iII", sock.getsockopt(sockets.SOL_SOCKET, sockets.SO_PEERCRED, 12))
    return pid, uid


def _start_time_linux(pid: int) -> str | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return parse_stat(file.read())
    except OSError:
        return None


def parse_stat(data: bytes) -> str | None:
    """Field 22 of `/proc/<pid>/stat`; None for a dead process. The name (field 2) may hold blanks and brackets."""
    fields = data[data.rfind(b")") + 1 :].split()
    if len(fields) < 20 or fields[0] in (b"Z", b"X", b"x") or not fields[19].isdigit():
        return None
    return fields[19].decode("ascii")


def _start_time_darwin(pid: int) -> str | None:
    """`proc_pidinfo(PROC_PIDTBSDINFO)`: status at byte 4, start seconds and microseconds at 120 of struct proc_bsdinfo."""
    import ctypes

    buffer = ctypes.create_string_buffer(136)
    if ctypes.CDLL("/usr/lib/libproc.dylib").proc_pidinfo(pid, 3, ctypes.c_uint64(0), buffer, 136) != 136:
        return None
    status: int = struct.unpack_from("I", buffer, 4)[0]
    seconds, micros = struct.unpack_from("QQ", buffer, 120)
    return None if status == 5 else f"{seconds}.{micros:06d}"  # 5 is SZOMB


def _boot_id_darwin() -> str:
    import ctypes

    buffer, size = ctypes.create_string_buffer(64), ctypes.c_size_t(64)
    failed = ctypes.CDLL(None).sysctlbyname(b"kern.bootsessionuuid", buffer, ctypes.byref(size), None, ctypes.c_size_t(0))
    return "" if failed else buffer.value.decode("ascii")

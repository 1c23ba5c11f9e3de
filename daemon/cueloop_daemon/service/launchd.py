"""The sockets that launchd holds for us, by `launch_activate_socket(3)`. Standard library only; loaded on macOS alone."""

from __future__ import annotations

import ctypes
import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LIBRARY = "/usr/lib/libSystem.B.dylib"
NOT_MANAGED = frozenset({errno.ESRCH, errno.EALREADY})
"""This process is no job of launchd's, or took its sockets before."""


def activated(name: str, library: Any = None) -> tuple[int, ...]:
    """The descriptors of the sockets that the job's property list calls `name`, not inheritable; none if launchd started us not.

    Raises OSError: ENOENT where the property list has no socket of that name. `library`: what has the function, libSystem by default.
    """
    system = ctypes.CDLL(LIBRARY, use_errno=True) if library is None else library
    descriptors, count = ctypes.POINTER(ctypes.c_int)(), ctypes.c_size_t(0)
    activate = system.launch_activate_socket
    activate.argtypes = [ctypes.c_char_p, ctypes.POINTER(ctypes.POINTER(ctypes.c_int)), ctypes.POINTER(ctypes.c_size_t)]
    activate.restype = ctypes.c_int
    number = activate(name.encode(), ctypes.byref(descriptors), ctypes.byref(count))
    if number in NOT_MANAGED:
        return ()
    if number:
        raise OSError(number, os.strerror(number), name)
    try:
        taken = tuple(descriptors[i] for i in range(count.value))
    finally:
        # The array is the caller's to free.
        system.free.argtypes, system.free.restype = [ctypes.c_void_p], None
        system.free(ctypes.cast(descriptors, ctypes.c_void_p))
    for fd in taken:
        os.set_inheritable(fd, False)
    return taken

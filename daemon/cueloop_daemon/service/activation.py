"""The listening socket that a service manager holds for us, taken only if it is the one that was meant. Standard library only."""

from __future__ import annotations

import os
import socket
import sys

from cueloop_daemon.service.standing import is_listener
from cueloop_protocol.frozen import Frozen
from cueloop_protocol.place import names_our_place
from cueloop_protocol.roots import shown
from cueloop_protocol.service import SOCKET_NAME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cueloop_daemon.service.origin import Origin
    from cueloop_protocol.roots import Root


class NotOurSocket(Exception):
    """What the manager passed is not the socket of this repository; `str()` is a plain sentence, `remedy` another.

    `listening` are the passed sockets at which callers may wait: they are to be told, or the manager starts us again at once.
    """

    code = "config_incompatible"
    remedy = "Write the unit anew: cueloop service install"

    def __init__(self, message: str, listening: tuple[socket.socket, ...]) -> None:
        super().__init__(message)
        self.listening = listening


class Activated(Frozen):
    """The manager's socket: descriptor, not inheritable, and the path of its name."""

    fd: int
    path: str


def take_socket(
    origin: Origin, root: Root, uid: int, *, from_launchd: Callable[[str], Sequence[int]] | None = None
) -> Activated | None:
    """The socket that the manager passed for `root`; None if it passed none. Others that came with it are closed, and named.

    Raises NotOurSocket. `from_launchd` gives the descriptors that launchd has by a name.
    """
    passed = _from_launchd(from_launchd) if origin.name == "launchd" else origin.descriptors
    for _, fd in passed:
        os.set_inheritable(fd, False)
    if not passed:
        return None
    ours = [fd for name, fd in passed if name == SOCKET_NAME]
    for name, fd in passed:
        if name != SOCKET_NAME and ours:
            print(f"cueloopd: a socket named {name!r} was passed and is not used.", file=sys.stderr)
            os.close(fd)
    if len(ours) != 1:
        names = ", ".join(repr(name) for name, _ in passed)
        raise NotOurSocket(
            f"one socket named {SOCKET_NAME!r} was to be passed, and these came: {names}",
            _listening(ours or [fd for _, fd in passed]),
        )
    return _checked(ours[0], root, uid)


def _checked(fd: int, root: Root, uid: int) -> Activated:
    listening = _listening([fd])
    if not listening:
        raise NotOurSocket("what the service manager passed is no listening Unix stream socket", ())
    path = listening[0].getsockname()
    if not isinstance(path, str) or not names_our_place(path, root, uid):
        name = shown(path) if isinstance(path, str) and path else "nowhere"
        raise NotOurSocket(f"the socket that was passed listens at {name}, which is no place for {shown(root.path)}", listening)
    listening[0].detach()
    return Activated(fd, path)


def _from_launchd(activated: Callable[[str], Sequence[int]] | None) -> tuple[tuple[str, int], ...]:
    if activated is None:
        from cueloop_daemon.service import launchd

        activated = launchd.activated
    try:
        return tuple((SOCKET_NAME, fd) for fd in activated(SOCKET_NAME))
    except OSError as exc:
        raise NotOurSocket(f"launchd does not give the socket {SOCKET_NAME!r}: {exc.strerror}", ()) from exc


def _listening(descriptors: Sequence[int]) -> tuple[socket.socket, ...]:
    """Those that are listening Unix stream sockets; the others are closed."""
    found: list[socket.socket] = []
    for fd in descriptors:
        if is_listener(fd):
            found.append(socket.socket(fileno=fd))
        else:
            os.close(fd)
    return tuple(found)

"""A manager has started us although somebody owns the repository: he is asked to go, or we stand by. Standard library only.

Meanwhile callers wait in the manager's queue, which is ours to serve next; only those who came by the owner's own socket hear of
the change, as of any upgrade.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time

from cueloop_daemon.service.waiting import refuse_waiting
from cueloop_daemon.store.ownership import AlreadyOwned, Ownership
from cueloop_protocol.codes import CONFLICT, SHUTTING_DOWN, RpcError
from cueloop_protocol.identity import peer_uid
from cueloop_protocol.place import read_locator
from cueloop_protocol.roots import shown
from cueloop_protocol.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from cueloop_daemon.service.keeper import Keeper
    from cueloop_protocol.place import Locator
    from cueloop_protocol.roots import Root

    Acquire = Callable[[Root, int], Ownership | AlreadyOwned]

ASK_SECONDS = 2.0
LEAVE_SECONDS = 20.0
"""An owner that was asked leaves within its grace and two seconds; one that nobody can ask is about to start, or leaves already."""
RETRY_SECONDS = 5.0
"""Between two times that an owner with a run is asked."""
STEP = 0.05


def await_ownership(root: Root, uid: int, keeper: Keeper, owner: AlreadyOwned, acquire: Acquire = Ownership.acquire) -> Ownership:
    """The ownership, once the owner has gone: at once if he agrees. Until then callers are told who serves the repository.

    Raises what `Ownership.acquire` does. Ends only so or by a signal: to leave would be to be started again at once.
    """
    assert keeper.activated is not None
    waiting = _Waiting(root, uid, keeper.activated.path, owner, acquire)
    while waiting.is_promising() and waiting.seconds < LEAVE_SECONDS:
        if waiting.is_over():
            break
        time.sleep(STEP)
    if waiting.ownership is None:
        keeper.notifier.ready(f"stands by: {_who(waiting.owner)} owns the repository")
        print(f"cueloopd: {shown(root.path)} is served by {_who(waiting.owner)}; standing by.", file=sys.stderr)
        for door in keeper.sockets():
            with door:
                refuse_waiting([door], lambda: _owned_by(waiting.owner, read_locator(root, uid)), waiting.is_over, step=4 * STEP)
    assert waiting.ownership is not None
    return waiting.ownership


class _Waiting:
    """Looks for the end of the owner, and asks it for that from time to time. `own` is the path of our socket."""

    def __init__(self, root: Root, uid: int, own: str, owner: AlreadyOwned, acquire: Acquire) -> None:
        self.owner = owner
        self.ownership: Ownership | None = None
        self._root, self._uid, self._own, self._acquire = root, uid, own, acquire
        self._begun = self._asked_at = time.monotonic()
        self._agreed = _ask(self._reachable())

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._begun

    def is_promising(self) -> bool:
        """Whether the owner goes, or cannot be asked: it starts just now, leaves just now, or was served by this very socket."""
        return self._agreed or self._reachable() is None

    def is_over(self) -> bool:
        """Whether the repository is ours now."""
        found = self._acquire(self._root, self._uid)
        if isinstance(found, Ownership):
            self.ownership = found
            return True
        self.owner = found
        if not self._agreed and time.monotonic() - self._asked_at > RETRY_SECONDS:
            self._asked_at = time.monotonic()
            self._agreed = _ask(self._reachable())
        return False

    def _reachable(self) -> Locator | None:
        """The owner's locator, if it has a socket of its own: at ours, nobody but we could answer."""
        locator = read_locator(self._root, self._uid)
        return locator if locator is not None and locator.socket != self._own else None


def _who(owner: AlreadyOwned) -> str:
    return "another process" if owner.pid is None else f"process {owner.pid}"


def _owned_by(owner: AlreadyOwned, locator: Locator | None) -> RpcError:
    """What callers hear; `data.socket` is where the owner can be asked."""
    return RpcError(
        CONFLICT,
        f"The repository is served by another daemon ({_who(owner)}).",
        word="resource_busy",
        detail="Ask at its own socket, which locator.json names; or end it, and this one takes its place: cueloop daemon stop",
        socket=locator.socket if locator is not None else None,
    )


def _ask(locator: Locator | None) -> bool:
    """Whether the owner goes. A newer one is not asked; one of another version only without a run, since its records may differ."""
    if locator is None or _number(locator.daemon_version) > _number(__version__):
        return False
    runs = "leave" if locator.daemon_version == __version__ else "refuse"
    request = {"jsonrpc": "2.0", "id": 1, "method": "daemon.shutdown", "params": {"runs": runs, "reason": "upgrade"}}
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(ASK_SECONDS)
            sock.connect(locator.socket)
            if peer_uid(sock) != os.getuid():
                return False
            sock.sendall(json.dumps(request).encode() + b"\n")
            return _has_agreed(sock)
    except (OSError, ValueError):
        return False


def _has_agreed(sock: socket.socket) -> bool:
    """Raises OSError and ValueError."""
    data = b""
    until = time.monotonic() + ASK_SECONDS
    while time.monotonic() < until:
        while b"\n" in data:
            line, _, data = data.partition(b"\n")
            message = json.loads(line)
            if isinstance(message, dict) and message.get("id") == 1:
                return "result" in message or RpcError.from_wire(message.get("error")).code == SHUTTING_DOWN
        piece = sock.recv(64 * 1024)
        if not piece:
            return False
        data += piece
    return False


def _number(version: str) -> tuple[int, ...]:
    """To be compared; what is no number counts as none."""
    return tuple(int(part) if part.isdigit() else -1 for part in version.split("."))

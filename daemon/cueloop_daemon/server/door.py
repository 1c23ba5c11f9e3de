"""Who comes in. Pure bookkeeping: the server does what it says."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from typing import Generic, TypeVar

from cueloop_daemon.server.limits import Limits
from cueloop_protocol import codes
from cueloop_protocol.codes import RpcError
from cueloop_protocol.identity import peer_pid, peer_uid
from cueloop_protocol.values import dataclass

log = logging.getLogger(__name__)
C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class Stranger:
    """Another user, or a peer that went before it could be asked. It is told nothing."""


@dataclass(frozen=True, slots=True)
class Guest:
    """A peer of our user; `pid` where the system tells."""

    pid: int | None


@dataclass(frozen=True, slots=True)
class Wait:
    """Ask again after so many seconds, or when somebody has spoken or left."""

    seconds: float


def who(sock: socket.socket, uid: int, uid_of: Callable[[socket.socket], int] = peer_uid) -> Guest | Stranger:
    """Who is at the other end, by the kernel's word. Only `uid` may come in, root neither."""
    try:
        found = uid_of(sock)
        if found != uid:
            log.warning("stranger_refused uid=%d", found)
            return Stranger()
        return Guest(peer_pid(sock))
    except OSError as error:
        log.debug("peer_unknown error=%s", error.strerror)
        return Stranger()


class Door(Generic[C]):
    """How many are inside, and which of them have not spoken yet."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._inside: set[C] = set()
        self._silent: dict[C, float] = {}  # in the order of their coming

    @property
    def inside(self) -> frozenset[C]:
        """All connections."""
        return frozenset(self._inside)

    @property
    def count(self) -> int:
        """How many connections there are."""
        return len(self._inside)

    @property
    def silent(self) -> int:
        """How many of them have not spoken yet."""
        return len(self._silent)

    def enter(self, guest: C, now: float) -> None:
        """One more, that has not spoken."""
        self._inside.add(guest)
        self._silent[guest] = now

    def spoke(self, guest: C) -> None:
        """It has spoken, or will not any more."""
        self._silent.pop(guest, None)

    def leave(self, guest: C) -> None:
        """It has gone."""
        self._inside.discard(guest)
        self._silent.pop(guest, None)

    def refusal(self) -> RpcError | None:
        """Why one more may not come in, if so."""
        if len(self._inside) < self._limits.connections:
            return None
        return codes.limit_exceeded(
            f"The daemon has {self._limits.connections} connections, which is its limit.",
            "Close what holds them, or end it: cueloop daemon stop",
        )

    def to_dismiss(self, now: float) -> C | Wait | None:
        """Before one more comes in: the silent one that has to go for it, or None if there is room."""
        if len(self._silent) < self._limits.unspoken:
            return None
        oldest, since = next(iter(self._silent.items()))
        left = since + self._limits.patience - now
        return Wait(left) if left > 0 else oldest

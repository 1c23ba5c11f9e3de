"""What an heir gets: the listening socket and both locks, as open descriptors. Standard library only.

The messages of the channel, in order; owner: `offer` with the descriptors, `going` or `refused`, `closed`; heir: `held` after the
first, `served` at the end. An owner that ends without a word has said the next one by ending.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from cueloop_daemon.service.standing import is_listener
from cueloop_daemon.takeover.channel import Channel, ChannelEnded, ChannelSilent, close_all
from cueloop_daemon.takeover.probes import reached
from cueloop_protocol.ending import has_ended
from cueloop_protocol.frozen import Frozen
from cueloop_protocol.identity import is_same_process, send_signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

WORD_SECONDS = 5.0
"""What either side has for its next word."""
BEYOND = 2.0
"""Seconds after its promised end after which an owner is ended."""


class Owner(Frozen):
    """The daemon that goes, as it says of itself. `leaves_within`: seconds from `going` to the end of its process."""

    pid: int
    start_time: str
    boot_id: str
    instance: str
    version: str
    leaves_within: float

    @classmethod
    def read(cls, result: Any) -> Owner:
        """From the answer to `daemon.handover`. Raises ChannelEnded if that makes no sense."""
        try:
            texts = {name: str(result[name]) for name in ("start_time", "boot_id", "instance", "version")}
            return cls(pid=int(result["pid"]), leaves_within=float(result["leaves_within"]), **texts)
        except (KeyError, TypeError, ValueError) as exc:
            raise ChannelEnded("no owner") from exc

    def is_alive(self) -> bool:
        """Whether that very process still is."""
        return is_same_process(self.pid, self.start_time, self.boot_id)


class Inheritance:
    """Held from `going` on. `path` and `identity` (device, inode) are the socket's name."""

    def __init__(
        self, channel: Channel, owner: Owner, path: str, identity: tuple[int, int], descriptors: tuple[int, int, int]
    ) -> None:
        self._channel = channel
        self.owner = owner
        self.path = path
        self.identity = identity
        self.listener, self.inner, self.local = descriptors

    def await_files(self) -> None:
        """Return when the owner's databases are closed: it says so, or its process has ended, or is ended after its time."""
        self._await_closed()
        reached("free")

    def _await_closed(self) -> None:
        owner, seconds = self.owner, self.owner.leaves_within + BEYOND
        try:
            if "closed" in self._channel.receive(seconds):
                return
        except ChannelSilent:
            send_signal(owner.pid, owner.start_time, owner.boot_id, signal.SIGKILL)
        except ChannelEnded:
            pass
        if not has_ended(owner.pid, owner.start_time, owner.boot_id, seconds):
            send_signal(owner.pid, owner.start_time, owner.boot_id, signal.SIGKILL)
            has_ended(owner.pid, owner.start_time, owner.boot_id, seconds)

    def served(self) -> None:
        """Tell the owner, if it still listens, that it may go."""
        with suppress(ChannelEnded, ChannelSilent):
            self._channel.send({"served": True}, WORD_SECONDS)
        self._channel.close()

    def decline(self) -> None:
        """It is worth nothing: what is left of it is closed. An owner that still waits turns those who wait at its door away."""
        os.close(self.listener)
        self._channel.close()


def receive(channel: Channel, owner: Owner, token: str) -> Inheritance | dict[str, Any] | None:
    """The inheritance, once the owner goes; the error document if it does not; None if it broke off. The channel stays open."""
    descriptors: list[int] = []
    try:
        offer = channel.receive(WORD_SECONDS)
        descriptors = channel.take()
        found = _checked(channel, owner, token, offer, descriptors)
        reached("took")
        channel.send({"held": True}, WORD_SECONDS)
        word = channel.receive(WORD_SECONDS)
    except ChannelEnded:
        if len(descriptors) == 3 and has_ended(owner.pid, owner.start_time, owner.boot_id, WORD_SECONDS):
            return found  # it died after its offer: what it left is ours
        close_all(descriptors)
        return None
    except ChannelSilent:
        close_all(descriptors)
        return None
    if "going" in word:
        reached("waiting")
        return found
    close_all(descriptors)
    error = word.get("refused")
    return error if isinstance(error, dict) else None


def _checked(channel: Channel, owner: Owner, token: str, offer: dict[str, Any], descriptors: list[int]) -> Inheritance:
    """Raises ChannelEnded, and closes what came, if it is not what was promised."""
    path, place = offer.get("path"), offer.get("identity")
    match path, place, descriptors:
        case str(), [int(device), int(inode)], [listener, inner, local] if offer.get("token") == token and is_listener(listener):
            return Inheritance(channel, owner, path_of(path), (device, inode), (listener, inner, local))
    close_all(descriptors)
    descriptors.clear()
    raise ChannelEnded("no offer")


def word_for(path: str) -> str:
    """The path as it is sent: any bytes, in ASCII."""
    return os.fsencode(path).hex()


def path_of(word: str) -> str:
    """The path that was sent. Raises ChannelEnded."""
    try:
        return os.fsdecode(bytes.fromhex(word))
    except ValueError as exc:
        raise ChannelEnded("no path") from exc

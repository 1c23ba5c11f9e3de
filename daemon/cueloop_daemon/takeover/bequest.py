"""The owner's side: the descriptors go to the heir first, then the owner leaves, and it stays until it knows that they arrived well.

Blocking calls with an end; standard library only. The messages are those of `inheritance`.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
from contextlib import suppress

from cueloop_daemon.takeover.asking import HEIR
from cueloop_daemon.takeover.channel import Channel, ChannelEnded, ChannelSilent
from cueloop_daemon.takeover.inheritance import WORD_SECONDS, word_for
from cueloop_daemon.takeover.probes import reached
from cueloop_protocol.ending import has_ended
from cueloop_protocol.frozen import Frozen
from cueloop_protocol.identity import boot_id, peer_pid, peer_uid, process_start_time, send_signal
from cueloop_protocol.place import local_folder, root_hash
from cueloop_protocol.roots import Root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

logger = logging.getLogger(__name__)

SERVING_SECONDS = 30.0
"""What an heir has from the end of our databases until it serves; then it is ended, and who waits is told to come again."""


class HeirLost(Exception):
    """The heir cannot be reached, or did not take what it was offered. Nothing has changed."""


class Heir(Frozen):
    """Where the heir waits to be called, as it said itself."""

    pid: int
    socket: str
    token: str


class Estate(Frozen):
    """What is handed on: the listening socket with its name, and both locks. The descriptors stay open here, too."""

    root: Root
    uid: int
    listener: int
    path: str
    identity: tuple[int, int]
    inner: int
    local: int


class Bequest:
    """An heir that holds the estate. Until `go` it can be refused; after it, `see_off` is the last thing that the owner does."""

    def __init__(self, channel: Channel, estate: Estate, pid: int | None) -> None:
        self._channel = channel
        self._estate = estate
        self._pid = pid
        self._start_time = process_start_time(pid) if pid is not None else None

    @classmethod
    def offer(cls, heir: Heir, estate: Estate) -> Bequest:
        """Call the heir and hand it the descriptors; returns when it has them. Raises HeirLost."""
        channel = _called(heir, estate)
        offer = {"token": heir.token, "path": word_for(estate.path), "identity": list(estate.identity)}
        try:
            channel.send(offer, WORD_SECONDS, (estate.listener, estate.inner, estate.local))
            reached("offered")
            if "held" not in channel.receive(WORD_SECONDS):
                raise ChannelEnded("another word")
            return cls(channel, estate, peer_pid_of(channel))
        except (ChannelEnded, ChannelSilent) as exc:
            channel.close()
            raise HeirLost(str(exc) or "it says nothing") from exc

    def refuse(self, document: Mapping[str, Any]) -> None:
        """Stay, and say why."""
        with suppress(ChannelEnded, ChannelSilent):
            self._channel.send({"refused": dict(document)}, WORD_SECONDS)
        self._channel.close()

    def go(self) -> bool:
        """Tell the heir that we leave; False if it is gone, and then we stay."""
        try:
            self._channel.send({"going": True}, WORD_SECONDS)
        except (ChannelEnded, ChannelSilent):
            self._channel.close()
            return False
        return True

    def see_off(self) -> bool:
        """Our databases are closed: say so, and return when the heir serves. False if it ended before, or was ended in the end."""
        try:
            self._channel.send({"closed": True}, WORD_SECONDS)
            reached("told")
            return "served" in self._channel.receive(SERVING_SECONDS)
        except ChannelEnded:
            return False
        except ChannelSilent:
            self._end_heir()
            return False
        finally:
            self._channel.close()

    def turn_back(self) -> None:
        """Nobody serves any more: answer whoever waits that nothing was done, and take the name away."""
        estate = self._estate
        with suppress(OSError):
            found = os.lstat(estate.path)
            if (found.st_dev, found.st_ino) == estate.identity:
                os.unlink(estate.path)
        with socket.socket(fileno=estate.listener) as listener:
            listener.setblocking(False)
            with suppress(OSError):
                while True:
                    _turn_away(listener.accept()[0])

    def _end_heir(self) -> None:
        """Both of us have the locks: before we give up, it must be gone."""
        if self._pid is None or self._start_time is None:
            return
        logger.error("heir_ended pid=%d reason=%s", self._pid, "it did not serve in time")
        send_signal(self._pid, self._start_time, boot_id(), signal.SIGKILL)
        has_ended(self._pid, self._start_time, boot_id(), WORD_SECONDS)


def _called(heir: Heir, estate: Estate) -> Channel:
    """Only a socket in our own folder, named for this repository, of our own user. Raises HeirLost."""
    folder, name = os.path.split(heir.socket)
    if folder != local_folder(estate.uid) or not name.startswith(root_hash(estate.root) + HEIR):
        raise HeirLost("its socket is not where it must be")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(WORD_SECONDS)
        sock.connect(heir.socket)
        if peer_uid(sock) != estate.uid:
            raise HeirLost("it belongs to another user")
    except OSError as exc:
        sock.close()
        raise HeirLost(exc.strerror or str(exc)) from exc
    except BaseException:
        sock.close()
        raise
    finally:
        with suppress(OSError):
            os.unlink(heir.socket)  # called once and never again; an heir that was killed cannot do it itself
    return Channel(sock)


def peer_pid_of(channel: Channel) -> int | None:
    """The process at the other end of the channel."""
    with socket.socket(fileno=os.dup(channel.fileno())) as sock:
        return peer_pid(sock)


def _turn_away(sock: socket.socket) -> None:
    """In the framing in which it spoke, if it has."""
    from cueloop_daemon.server.envelope import refusal
    from cueloop_protocol.codes import shutting_down
    from cueloop_protocol.framing import Decoder, encode

    with sock, suppress(OSError):
        sock.setblocking(False)
        decoder = Decoder()
        with suppress(BlockingIOError):
            decoder.feed(sock.recv(65536))
        sock.shutdown(socket.SHUT_RD)
        sock.send(encode(refusal(None, shutting_down("replaced")), decoder.kind))

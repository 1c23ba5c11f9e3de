"""The heir asks the owner of a repository for its place. Standard library only; blocking calls with an end."""

from __future__ import annotations

import os
import select
import socket
import time
from contextlib import suppress

from cueloop_daemon.takeover.channel import Channel, ChannelEnded, ChannelSilent
from cueloop_daemon.takeover.inheritance import Inheritance, Owner, receive
from cueloop_daemon.takeover.probes import reached
from cueloop_protocol.codes import CONFLICT, INVALID_PARAMS, METHOD_NOT_FOUND, SHUTTING_DOWN, RpcError
from cueloop_protocol.ending import has_ended
from cueloop_protocol.frozen import Frozen
from cueloop_protocol.identity import boot_id, peer_pid, peer_uid, process_start_time
from cueloop_protocol.place import find_socket, local_folder, root_hash
from cueloop_protocol.roots import Root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Literal

    Why = Literal["old", "refused", "managed", "busy", "silent"]

ANSWER_SECONDS = 10.0
"""What an owner has for its answer; a healthy one takes milliseconds, and a slow one is not dead. Runs that are cancelled first
have `CANCEL_SECONDS`."""
CANCEL_SECONDS = 30.0
OFFER_SECONDS = 10.0
"""What it has from its answer to the descriptors."""
END_SECONDS = 2.0
"""What an owner that cut us off, or leaves, has for the end of its process before we go on all the same."""
ROUNDS = 3
"""How often somebody else's handover is waited for before this one is given up."""
ROUND_SECONDS = 15.0
HEIR = ".heir-"
"""After the root's hash, and before the heir's pid: the name of the socket on which an heir waits for its owner."""


class Successor(Frozen):
    """Who wants the place: what it writes and reads, and what becomes of an active run."""

    version: str
    protocol_min: int
    protocol_max: int
    events_schema: int
    runs_schema: int
    record: int
    runs: Literal["refuse", "leave", "cancel"] = "refuse"


class Nobody(Frozen):
    """Nobody serves the repository: start as always. If somebody still owns it, the lock says so."""


class Stays(Frozen):
    """The owner stays and nothing was changed.

    `why`: it is too `old` to know how, `refused` (a run, or what we cannot read), belongs to a service manager (`managed`), is
    `busy` with another heir, or broke off on the way, or says nothing at all (`silent`). `error` is the error document for people.
    """

    why: Why
    pid: int | None
    error: dict[str, Any]


Asked = Nobody | Stays | Inheritance


def ask(root: Root, uid: int, environ: Mapping[str, str], successor: Successor) -> Asked:
    """Ask whoever serves the root to hand over; returns when it goes and we hold its socket and locks, or when it stays."""
    for _ in range(ROUNDS - 1):
        found = _one_round(root, uid, environ, successor)
        if isinstance(found, _Busy):
            _await_other_heir(found)
        elif not isinstance(found, _CutOff):
            return found
    found = _one_round(root, uid, environ, successor)
    if isinstance(found, _CutOff):
        return Nobody()
    if not isinstance(found, _Busy):
        return found
    found.owner.close()
    return Stays("busy", found.pid, found.error)


class _Busy(Frozen):
    """Another heir was faster; `owner` is a connection to the daemon that it replaces."""

    pid: int | None
    error: dict[str, Any]
    owner: Channel


class _CutOff(Frozen):
    """The owner ended, or left for another heir, with nothing given to us: whoever serves now is to be asked."""


def _one_round(root: Root, uid: int, environ: Mapping[str, str], successor: Successor) -> Asked | _Busy | _CutOff:
    owner = _connected(root, uid, environ)
    if owner is None:
        return Nobody()
    reached("asking")
    keep = False
    try:
        with _Door(f"{local_folder(uid)}/{root_hash(root)}{HEIR}{os.getpid()}", uid) as door:
            answer = _answer(owner, successor, door)
            if not isinstance(answer, Owner):
                keep = isinstance(answer, _Busy)
                return answer
            reached("promised")
            try:
                channel = door.called(owner, OFFER_SECONDS)
            except ChannelSilent:
                return Stays("busy", answer.pid, _unclear(answer))
        if channel is None:
            # It ended, or goes for another heir that asked in the same moment: two can be promised what one gets.
            _await_its_end(owner)
            return _CutOff()
        return _taken(channel, answer, door.token)
    except ChannelSilent:
        return Stays("silent", owner.pid, RpcError(CONFLICT, "The daemon does not answer.").document)
    finally:
        if not keep:
            owner.channel.close()


def _nobody(owner: _Connected) -> Nobody:
    _await_its_end(owner)
    return Nobody()


def _await_its_end(owner: _Connected) -> None:
    """Its connection has ended, or will: a process that ends closes its sockets one by one, and its locks."""
    if owner.pid is not None and owner.start_time is not None:
        has_ended(owner.pid, owner.start_time, boot_id(), END_SECONDS)


class _Connected(Frozen):
    channel: Channel
    pid: int | None
    start_time: str | None

    def fileno(self) -> int:
        return self.channel.fileno()


def _connected(root: Root, uid: int, environ: Mapping[str, str]) -> _Connected | None:
    for path in find_socket(root, environ, uid):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(ANSWER_SECONDS)
            sock.connect(path)
            if peer_uid(sock) == uid:
                pid = peer_pid(sock)
                return _Connected(Channel(sock), pid, process_start_time(pid) if pid is not None else None)
        except TimeoutError:
            sock.close()
            raise ChannelSilent from None
        except OSError:
            pass
        sock.close()
    return None


def _answer(owner: _Connected, successor: Successor, door: _Door) -> Owner | Asked | _Busy | _CutOff:
    asked = vars(successor) | {"protocol": {"min": successor.protocol_min, "max": successor.protocol_max}}
    params = {name: value for name, value in asked.items() if not name.startswith("protocol_")}
    params["heir"] = {"pid": os.getpid(), "socket": door.path, "token": door.token}
    seconds = CANCEL_SECONDS if successor.runs == "cancel" else ANSWER_SECONDS
    try:
        owner.channel.send({"jsonrpc": "2.0", "id": 1, "method": "daemon.handover", "params": params}, ANSWER_SECONDS)
        until = time.monotonic() + seconds
        while "method" in (message := owner.channel.receive(until - time.monotonic())):
            pass
    except ChannelEnded:
        _await_its_end(owner)
        return _CutOff()
    if "error" not in message:
        return Owner.read(message.get("result"))
    error = RpcError.from_wire(message["error"])
    if error.code == SHUTTING_DOWN and error.data.get("reason") != "replaced":
        return _nobody(owner)
    if error.code in (METHOD_NOT_FOUND, INVALID_PARAMS):
        return Stays("old", owner.pid, error.document)
    if error.code == SHUTTING_DOWN or (error.code == CONFLICT and "heir" in error.data):
        return _Busy(owner.pid, error.document, owner.channel)
    return Stays("managed" if "managed" in error.data else "refused", owner.pid, error.document)


def _taken(channel: Channel, owner: Owner, token: str) -> Asked:
    """What the owner hands out over the channel, once it says that it goes."""
    found = receive(channel, owner, token)
    if isinstance(found, Inheritance):
        return found
    channel.close()
    if found is None:
        return Nobody() if not owner.is_alive() else Stays("busy", owner.pid, _unclear(owner))
    return Stays("refused", owner.pid, found)


def _unclear(owner: Owner) -> dict[str, Any]:
    return RpcError(CONFLICT, f"The daemon (process {owner.pid}) broke the handover off.", detail="Try again.").document


def _await_other_heir(busy: _Busy) -> None:
    """Its connections end when the owner goes, and the next round finds the other heir."""
    with suppress(ChannelEnded, ChannelSilent):
        until = time.monotonic() + ROUND_SECONDS
        while True:
            busy.owner.receive(until - time.monotonic())
    busy.owner.close()


class _Door:
    """The socket on which the heir waits to be called. Its folder is ours alone; the token says that the caller was asked."""

    def __init__(self, path: str, uid: int) -> None:
        self.path = path
        self.token = os.urandom(16).hex()
        self._uid = uid
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def __enter__(self) -> _Door:
        with suppress(FileNotFoundError):
            os.unlink(self.path)
        mask = os.umask(0o177)
        try:
            self._sock.bind(self.path)
        finally:
            os.umask(mask)
        self._sock.listen(1)
        return self

    def __exit__(self, *_: object) -> None:
        self._sock.close()
        with suppress(OSError):
            os.unlink(self.path)

    def called(self, owner: _Connected, seconds: float) -> Channel | None:
        """The owner's call; None if it ended first. Raises ChannelSilent."""
        until = time.monotonic() + seconds
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        poll.register(owner.fileno(), select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll(max(0.0, until - time.monotonic()) * 1000)}
            if self._sock.fileno() in ready:
                caller = self._sock.accept()[0]
                if peer_uid(caller) == self._uid:
                    return Channel(caller)
                caller.close()
            elif ready:
                try:
                    owner.channel.receive(1.0)
                except ChannelEnded:
                    return None
            else:
                raise ChannelSilent

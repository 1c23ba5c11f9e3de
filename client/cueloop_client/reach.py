"""Finding the daemon of a repository and connecting to it. Standard library only."""

from __future__ import annotations

import os

from cueloop_client.exchange import connect
from cueloop_client.failures import Misfit, Older
from cueloop_client.far import FarRoot
from cueloop_protocol.frozen import Frozen
from cueloop_protocol.place import FOLDER, Locator, find_socket, read_locator, root_hash
from cueloop_protocol.roots import Root, shown
from cueloop_protocol.version import OLDEST_PROTOCOL_VERSION, PROTOCOL_VERSION, __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from cueloop_client.world import Deadline, World

PROTOCOL = PROTOCOL_VERSION
"""The newest version of the protocol that this client speaks."""


class Process(Frozen):
    """A process that cannot be mistaken for another one (see `cueloop_protocol.identity`)."""

    pid: int
    start_time: str
    boot_id: str


def reach(
    root: Root, world: World, deadline: Deadline, *, any_version: bool = False, may_wake: bool = True
) -> socket.socket | None:
    """A connection to the root's daemon; None if none listens, which is the only case in which one may be started.

    Where a service manager listens, to connect is to start: with `may_wake` false nobody is called who is not known to live.
    Raises Silent, Stranger, and Misfit unless `any_version`.
    """
    if isinstance(root, FarRoot):
        return root.distance.dial(deadline, start=False)
    if not may_wake and not is_awake(root, world):
        return None
    for path in find_socket(root, world.environ, world.uid):
        sock = connect(path, world.uid, deadline)
        if sock is None:
            continue
        if not any_version:
            try:
                check_version(read_locator(root, world.uid))
            except Misfit:
                sock.close()
                raise
        return sock
    return None


def reach_or_upgrade(
    root: Root, world: World, deadline: Deadline, start_deadline: Callable[[], Deadline], *, may_start: bool
) -> socket.socket | None:
    """Like `reach`; with `may_start` an older daemon that shares no protocol with us is replaced by this version's.

    Raises what `reach` does, and StartFailed; Misfit, too, where a run keeps the older one.
    """
    if isinstance(root, FarRoot):
        return root.distance.dial(start_deadline() if may_start else deadline, start=may_start)
    try:
        return reach(root, world, deadline, may_wake=may_start)
    except Older as exc:
        if not may_start:
            raise
        from cueloop_client.successor import upgrade

        return upgrade(root, world, start_deadline(), exc)


def is_awake(root: Root, world: World) -> bool:
    """Whether a daemon of this root lives: its locator says so or, where that could not be written, the lock that it signed."""
    if read_locator(root, world.uid) is not None:
        return True
    from cueloop_protocol.owners import owner_of

    return owner_of(root_hash(root), world.uid) is not None


def check_version(locator: Locator | None) -> None:
    """Raises Misfit if the daemon says that it speaks none of our protocols. One that says nothing is asked and answers."""
    if locator is None:
        return
    low, high = locator.protocol_min, locator.protocol_max
    if low <= PROTOCOL and high >= OLDEST_PROTOCOL_VERSION:
        return
    spoken, ours = _range(low, high), _range(OLDEST_PROTOCOL_VERSION, PROTOCOL)
    message = f"The daemon that runs here (version {locator.daemon_version}) speaks protocol {spoken}, this command {ours}."
    if high < OLDEST_PROTOCOL_VERSION:
        raise Older(message, "Replace it by this version's: cueloop daemon restart")
    raise Misfit(message, f"This command (version {__version__}) is the older one: update cueloop to {locator.daemon_version}.")


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"


def told_process(answer: object, root: Root, world: World, sock: socket.socket) -> Process | None:
    """The daemon's process: as it said in an answer, else as it wrote into its files; None if neither tells.

    Only for a daemon too old to say anything the kernel is asked, and only believed if that process is a cueloopd: the kernel
    names who called `listen`, which may have been a service manager, or a predecessor.
    """
    if isinstance(root, FarRoot):
        return None
    located = answered_process(answer) or located_process(root, world)
    if located is not None:
        return located
    peer = peer_process(sock)
    return peer if peer is not None and _is_daemon(peer.pid) else None


def answered_process(answer: object) -> Process | None:
    """The process that an answer names, if it does."""
    match answer:
        case {"pid": int(pid), "start_time": str(start_time), "boot_id": str(boot_id)}:
            return Process(pid, start_time, boot_id)
    return None


def _is_daemon(pid: int) -> bool:
    """Whether the command line is a daemon's; without a /proc the peer is all that is known."""
    if not os.path.isdir("/proc/self"):
        return True
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return any(b"cueloop_daemon" in word or os.path.basename(word) == b"cueloopd" for word in file.read().split(b"\0"))
    except OSError:
        return False


def peer_process(sock: socket.socket) -> Process | None:
    """The process at the other end, pinned by its start time; None if the system does not tell or it is gone."""
    from cueloop_protocol.identity import boot_id, peer_pid, process_start_time

    pid = peer_pid(sock)
    started = process_start_time(pid) if pid is not None else None
    return Process(pid, started, boot_id()) if pid is not None and started is not None else None


def located_process(root: Root, world: World) -> Process | None:
    """The live process that the locator names or that signed the lock; None if there is none here to be believed."""
    if isinstance(root, FarRoot):
        return None
    locator = read_locator(root, world.uid)
    if locator is not None:
        return Process(locator.pid, locator.start_time, locator.boot_id)
    from cueloop_protocol.owners import owner_of

    owner = owner_of(root_hash(root), world.uid)
    return Process(owner.pid, owner.start_time, owner.boot_id) if owner is not None else None


def may_have_daemon(root: Root) -> bool:
    """Whether a daemon would own this repository: what it must write is there or can be made, and is no link to elsewhere.

    Where it would not, reading commands answer by themselves and create nothing.
    """
    return why_no_daemon(root) is None


def why_no_daemon(root: Root) -> tuple[str, str] | None:
    """What keeps a daemon from owning this repository, and the remedy: two sentences that name the folder. None if nothing does."""
    if isinstance(root, FarRoot):
        return None  # it is said there
    if not os.path.lexists(root.join(".cueloop")):
        return (
            f"{shown(root.path)} has no .cueloop folder.",
            "Make it a CueLoop repository with `cueloop init`, or name another one with --repo.",
        )
    for name in (".cueloop", ".cueloop/cache", FOLDER):
        path = root.join(name)
        if not os.path.lexists(path):
            return None
        where = f"{shown(root.path)}/{name}"
        if not os.path.isdir(path):
            return f"{where} is not a folder.", "Move away what stands there."
        if not os.access(path, os.W_OK | os.X_OK):
            if os.statvfs(path).f_flag & os.ST_RDONLY:
                return f"{where} may not be written: its file system is mounted read-only.", "Mount it writable."
            return f"{where} may not be written.", f"Make it writable: chmod u+rwx {quoted(where)} (if it is yours)."
        if os.path.islink(path) and (name == FOLDER or not _leads_inside(root, path)):
            return f"{where} is a link that leads elsewhere.", "Put a folder in its place: nothing is written through it."
    return None


def quoted(path: str) -> str:
    """The path as a word of a shell's command line."""
    from shlex import quote

    return quote(path)


def _leads_inside(root: Root, path: str) -> bool:
    """Whether a link stays within the repository; a daemon writes through no other."""
    inside = os.path.realpath(root.base)
    return os.path.commonpath((inside, os.path.realpath(path))) == inside

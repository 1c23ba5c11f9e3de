"""All daemons of this user on this machine, each asked at the same time. Standard library only.

They are found by what they wrote into their locks (`cueloop_protocol.owners`); one whose lock is held and says nothing, by its socket
in a runtime folder.
"""

from __future__ import annotations

import os
from threading import Thread

from cueloop_client.again import is_leaving
from cueloop_client.exchange import ask, connect
from cueloop_client.failures import Failure, Lost, Silent
from cueloop_client.outside import heir_of, seen_from_outside
from cueloop_client.reach import check_version, peer_process
from cueloop_client.shapes import answer
from cueloop_protocol.frozen import Frozen
from cueloop_protocol.owners import Owner, is_key, is_locked, live_owners
from cueloop_protocol.place import SOCKET, PlaceError, check_private_folder, find_socket, read_locator, runtime_folders
from cueloop_protocol.roots import Root, RootError, open_root, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any

    from cueloop_client.world import Deadline, World

NOT_ANSWERING = "not answering"
NO_SOCKET = "no socket"
OTHER_VERSION = "other version"
LEAVING = "draining"
TOLD = ("state", "pid", "daemon_version", "protocol", "uptime_seconds", "memory_bytes", "connections", "subscribers", "origin",
        "active_run")  # fmt: skip
"""What is taken over from `daemon.status` as it is, where it is there."""


class Place(Frozen):
    """Where a daemon may be: the hash of its root, and the process that signed its lock, if one did."""

    key: str
    owner: Owner | None


def daemons(world: World, deadline: Deadline) -> list[dict[str, Any]]:
    """What is known of each by the deadline, ordered by repository; a dead one is not told, a silent one as "not answering"."""
    places = find_places(world)
    found: dict[str, dict[str, Any] | None] = {place.key: _unanswered(place) for place in places}

    def look(place: Place) -> None:
        root = _root(place.owner)
        row = found[place.key] = _stands(place, root)
        found[place.key] = _look(world, place, root, row, deadline)

    # One that hangs holds its own thread alone, and no thread holds this process: they are daemonic.
    threads = [Thread(target=look, args=(place,), daemon=True) for place in places]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(deadline.left())
    seen = dict(found)
    rows = [_with_heir(place, row) for place in places if (row := seen[place.key]) is not None]
    return sorted(rows, key=lambda row: (row.get("repository") or "", row.get("pid") or 0))


def find_places(world: World) -> list[Place]:
    """Where a daemon of this user may be."""
    owners = {owner.key: owner for owner in live_owners(world.uid)}
    keys = set(owners)
    for folder in runtime_folders(world.environ, world.uid):
        try:
            check_private_folder(folder, world.uid)
            names = [name for name in os.listdir(folder) if is_key(name) and name not in keys]
        except (PlaceError, OSError):
            continue
        # A socket alone may be a service manager's, and to connect to it would start what sleeps.
        keys.update(name for name in names if os.path.lexists(f"{folder}/{name}/{SOCKET}") and is_locked(name, world.uid))
    return [Place(key, owners.get(key)) for key in sorted(keys)]


def _look(world: World, place: Place, root: Root | None, row: dict[str, Any] | None, deadline: Deadline) -> dict[str, Any] | None:
    """One daemon, of which `row` is known; None if nobody is there."""
    for path in _sockets(world, place, root):
        try:
            sock = connect(path, world.uid, deadline)
        except Failure:
            row = {**(row or {"state": NOT_ANSWERING}), "socket": shown(path)}
            continue
        if sock is None:
            continue
        with sock:
            process = peer_process(sock)
            seen = {**(row or {}), "socket": shown(path), **({"pid": process.pid} if process is not None else {})}
            asked = _asked(world, sock, root, deadline, is_named=seen.get("repository") is not None)
        if asked is None and not deadline.is_over():
            return _look(world, place, root, row, deadline)
        return {**seen, **(asked or {"state": NOT_ANSWERING})}
    return {**row, "state": NO_SOCKET} if row is not None and "socket" not in row else row


def _asked(world: World, sock: socket.socket, root: Root | None, deadline: Deadline, *, is_named: bool) -> dict[str, Any] | None:
    """What the daemon says of itself; one of another version, as far as it is understood. None: it has a successor by now.

    `is_named`: its repository is known from its lock, which has the path's own bytes.
    """
    locator = read_locator(root, world.uid) if root is not None else None
    known: dict[str, Any] = {}
    if locator is not None:
        known = {"daemon_version": locator.daemon_version, "protocols": [locator.protocol_min, locator.protocol_max]}
    try:
        check_version(locator)
        status = answer(ask(sock, "daemon.status", {}, deadline))
    except (Silent, Lost):
        return {**known, "state": NOT_ANSWERING}
    except Exception as exc:
        if is_leaving(exc):
            return None if exc.data.get("reason") == "replaced" else {**known, "state": LEAVING}
        return {**known, "state": OTHER_VERSION}  # an answer in another language is one, too
    paths = status.get("paths")
    where = paths.get("repo_root") if isinstance(paths, dict) and not is_named else None
    named = {"repository": where, "repository_found": os.path.isdir(where)} if isinstance(where, str) else {}
    return {"state": OTHER_VERSION, **known, **named, **{name: status[name] for name in TOLD if name in status}}


def _unanswered(place: Place) -> dict[str, Any] | None:
    """What is known of a daemon without asking it, or touching its repository, which may be on a file server that hangs."""
    owner = place.owner
    if owner is None:
        return None
    outside = seen_from_outside(owner.pid)
    repository = shown(owner.root) if owner.root is not None else None
    row: dict[str, Any] = {"repository": repository, "state": NOT_ANSWERING, "pid": owner.pid}
    told = {"memory_bytes": outside.memory_bytes, "uptime_seconds": outside.uptime_seconds, "condition": outside.condition}
    return row | {name: value for name, value in told.items() if value is not None}


def _stands(place: Place, root: Root | None) -> dict[str, Any] | None:
    """The same, and whether its repository is where it was."""
    row, owner = _unanswered(place), place.owner
    if row is None or owner is None or owner.root is None:
        return row
    return {**row, "repository_found": _is_there(owner, root)}


def _with_heir(place: Place, row: dict[str, Any]) -> dict[str, Any]:
    """The same, and for one that says nothing, `heir`: which process takes over just now. Until that serves, callers wait."""
    owner = place.owner
    if owner is None or owner.root is None or row.get("state") not in (NOT_ANSWERING, NO_SOCKET):
        return row
    heir = heir_of(owner.pid, owner.root)
    return row if heir is None else {**row, "heir": heir}


def _root(owner: Owner | None) -> Root | None:
    """The repository of the daemon, if it is where it was."""
    if owner is None or owner.root is None:
        return None
    try:
        root = open_root(owner.root)
    except RootError:
        return None
    return root if root.path == owner.root else None


def _is_there(owner: Owner, root: Root | None) -> bool:
    """Whether the folder that the daemon took is still at its path, and still a repository."""
    try:
        if root is None or not os.path.isdir(root.join(".cueloop")):
            return False
        status = os.stat(root.base)
    except OSError:
        return False
    return owner.folder in (None, f"{status.st_dev}-{status.st_ino}")


def _sockets(world: World, place: Place, root: Root | None) -> tuple[str, ...]:
    """Sockets that may be this daemon's: the located one first. Private folders only."""
    if root is not None:
        return find_socket(root, world.environ, world.uid)
    found = []
    for folder in runtime_folders(world.environ, world.uid):
        try:
            check_private_folder(f"{folder}/{place.key}", world.uid)
        except PlaceError:
            continue
        found.append(f"{folder}/{place.key}/{SOCKET}")
    return tuple(found)

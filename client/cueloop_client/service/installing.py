"""`cueloop service install`: the files written, the manager told, a daemon that runs without it made to leave. Standard library only."""

from __future__ import annotations

import os

from cueloop_client.failures import Failure
from cueloop_client.service.calling import Called, call
from cueloop_client.service.owner import first_answer, make_room
from cueloop_client.service.placing import Placed, place, states
from cueloop_client.service.removing import remove_files
from cueloop_client.service.templates import NoTemplate
from cueloop_client.service.wanted import wanted
from cueloop_client.startlock import start_lock
from cueloop_protocol.frozen import Frozen
from cueloop_protocol.place import PlaceError, ensure_private_folder, local_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_client.service.manager import Commands, Manager
    from cueloop_client.service.sealed import Sealed
    from cueloop_client.service.wanted import Wanted
    from cueloop_client.world import World
    from cueloop_protocol.roots import Root

LOCK_SECONDS = 30.0


class Cleaned(Frozen):
    """The service of a repository that is not where it was, which is removed."""

    repository: str
    files: tuple[Placed, ...]


class Report(Frozen):
    """What was done. `out_of_reach`: why the manager was not told; `left`: the pid of the daemon that made room.

    `pid`, `version`: the daemon that answered through the service, None where none was asked.
    """

    unit: str
    manager: str
    files: tuple[Placed, ...]
    called: tuple[Called, ...]
    cleaned: tuple[Cleaned, ...]
    out_of_reach: str | None
    by_hand: str
    advice: tuple[str, ...]
    left: int | None = None
    pid: int | None = None
    version: str | None = None
    failure: str | None = None

    @property
    def is_on(self) -> bool:
        """Whether the service works, as far as can be seen from here."""
        return self.out_of_reach is None and self.failure is None


def planned(root: Root, world: World, manager: Manager) -> tuple[Wanted, tuple[Sealed, ...]]:
    """What would be written. Raises Failure."""
    service = wanted(root, world)
    try:
        return service, manager.files(service)
    except NoTemplate as exc:
        raise Failure(f"This installation is incomplete: {exc} is missing.", "Install cueloopd anew.") from exc


def install(root: Root, world: World, manager: Manager, *, force: bool) -> Report:
    """Make the daemon of `root` a service. Called again it changes nothing; after a move of the interpreter it writes that anew.

    Raises Failure where nothing sensible can be done; what was done by then is right by itself.
    """
    service, files = planned(root, world, manager)
    before = dict(states(files))
    was_there = all(state != "missing" for state in before.values())
    cleaned = _clean(world, manager)
    placed = place(files, force=force)
    _make_folders(manager.folders(service), world.uid)
    key, instance = service.key, service.instance
    unit, by_hand = manager.unit(key, instance), manager.by_hand(key, instance)
    why = manager.why_out_of_reach()
    if why is not None:
        return Report(unit, manager.name, tuple(placed), (), tuple(cleaned), why, by_hand, ())
    is_changed = any(file.done in ("written", "replaced") for file in placed)
    state = manager.state(key, instance)
    left, called, failure = None, list[Called](), None
    if is_changed or not (state.is_enabled and state.is_listening):
        commands = manager.switch_on(key, instance, anew=was_there and is_changed)
        left, called = _switch_on(root, world, manager, service, commands, is_listening=state.is_listening)
        failure = next((one.line() for one in called if one.failure is not None), None)
    pid, version = None, None
    if failure is None:
        pid, version, failure = _tried(root, world, manager)
    return Report(
        unit,
        manager.name,
        tuple(placed),
        tuple(called),
        tuple(cleaned),
        None,
        by_hand,
        manager.advice(),
        left,
        pid,
        version,
        failure,
    )


def _switch_on(
    root: Root, world: World, manager: Manager, service: Wanted, commands: Commands, *, is_listening: bool
) -> tuple[int | None, list[Called]]:
    """Under the start lock, so that no command starts a daemon in between, which would take the socket's name."""
    folder = local_folder(world.uid)
    try:
        ensure_private_folder(folder, world.uid)
    except PlaceError as exc:
        raise Failure(f"The service cannot be switched on: {exc}.", f"Remedy: {exc.remedy}.", word="permission_denied") from exc
    with start_lock(f"{folder}/{service.key}.start", world.deadline(LOCK_SECONDS)):
        left = None if is_listening else make_room(root, world)
        return left, call(manager.tools, commands)


def _tried(root: Root, world: World, manager: Manager) -> tuple[int | None, str | None, str | None]:
    """The first request, which starts the daemon: its pid and version, or what went wrong."""
    try:
        status = first_answer(root, world)
    except Failure as exc:
        return None, None, " ".join(part for part in (exc.message, exc.detail) if part)
    except Exception as exc:  # an answer of whatever version, that it cannot serve
        return None, None, str(exc)
    if status is None:
        return None, None, f"Nobody listens although {manager.name} was told to."
    pid, version = status.get("pid"), status.get("daemon_version")
    if status.get("origin") != manager.name:
        return None, None, f"The daemon that answers (process {pid}) was not started by {manager.name}."
    return pid if isinstance(pid, int) else None, version if isinstance(version, str) else None, None


def _clean(world: World, manager: Manager) -> list[Cleaned]:
    gone = [one for one in manager.installed() if one.is_gone(world.passwd_home())]
    return [Cleaned(one.repository, tuple(remove_files(manager, one, force=False)[0])) for one in gone]


def _make_folders(folders: tuple[str, ...], uid: int) -> None:
    for folder in folders:
        try:
            os.makedirs(os.path.dirname(folder), exist_ok=True)
            ensure_private_folder(folder, uid)
        except (OSError, PlaceError) as exc:
            raise Failure(f"A folder of the service cannot be made: {exc}.", word="permission_denied") from exc

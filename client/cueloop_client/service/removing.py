"""`cueloop service uninstall`: what was installed is taken away, and nothing else. Standard library only."""

from __future__ import annotations

from cueloop_client.service.calling import Called, call
from cueloop_client.service.placing import Placed, take_away
from cueloop_protocol.frozen import Frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cueloop_client.service.manager import Installed, Manager


class Removed(Frozen):
    """What was done. `found`: whether there was a service of the repository."""

    found: bool
    unit: str | None
    files: tuple[Placed, ...]
    called: tuple[Called, ...]
    out_of_reach: str | None


def find(manager: Manager, repository: str) -> Installed | None:
    """The service of the repository at that path, whether or not that is there."""
    return next((one for one in manager.installed() if one.repository == repository), None)


def uninstall(manager: Manager, repository: str, *, force: bool) -> Removed:
    """Switch the service off and remove its files; those that all repositories share go with the last one. Raises Failure.

    A run goes on: its agents belong to a process of their own, and the next command starts a daemon that takes it over.
    """
    found = find(manager, repository)
    if found is None:
        return Removed(False, None, (), (), None)
    files, called, why = remove_files(manager, found, force=force)
    return Removed(True, manager.unit(found.key, found.instance), tuple(files), tuple(called), why)


def remove_files(manager: Manager, found: Installed, *, force: bool) -> tuple[list[Placed], list[Called], str | None]:
    """Off, away, forgotten; and why the manager could not be told. Raises Failure."""
    why = manager.why_out_of_reach()
    called = [] if why else call(manager.tools, manager.switch_off(found.key, found.instance))
    is_last = all(one.instance == found.instance for one in manager.installed())
    shared = manager.shared_paths() if is_last else ()
    links = manager.links(found.key, found.instance) if why else ()
    files = [*take_away(found.paths, force=force), *take_away(shared, force=force), *_unlink(links)]
    if not why:
        # A unit that never failed has nothing to be reset: that is no failure of ours.
        called += [Called(one.argv, None) for one in call(manager.tools, manager.after_removal(found.key, found.instance))]
    return files, called, why


def _unlink(paths: tuple[str, ...]) -> list[Placed]:
    """What the manager made itself when it was switched on."""
    import os
    from contextlib import suppress

    done = []
    for path in paths:
        with suppress(FileNotFoundError):
            os.unlink(path)
            done.append(Placed(path, "removed"))
    return done

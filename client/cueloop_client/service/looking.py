"""`cueloop service status`: files, manager, interpreter and daemon, put side by side. Standard library only."""

from __future__ import annotations

import os
import sys

from cueloop_client.again import ask_running
from cueloop_client.failures import Failure
from cueloop_client.service.placing import states
from cueloop_client.service.removing import find
from cueloop_protocol.frozen import Frozen
from cueloop_protocol.roots import shown
from cueloop_protocol.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cueloop_client.service.manager import Installed, Manager, State
    from cueloop_client.service.sealed import Sealed
    from cueloop_client.world import World
    from cueloop_protocol.roots import Root

ASK_VERSION = "from cueloop_protocol.version import __version__; print(__version__)"
QUICK = 10.0


class Look(Frozen):
    """How the service of a repository is. `version`: of what its interpreter has, None where that has none.

    `problems`: what is wrong and what to do, each two plain sentences. `daemon`: its own answer, None if none runs.
    """

    found: Installed | None
    unit: str
    manager: str
    files: tuple[tuple[str, str], ...]
    state: State | None
    out_of_reach: str | None
    program: str | None
    version: str | None
    daemon: dict[str, Any] | None
    problems: tuple[tuple[str, str], ...]
    advice: tuple[str, ...]
    gone: tuple[str, ...]
    """Repositories with a service that are not where they were."""


def look(root: Root, world: World, manager: Manager, files: tuple[Sealed, ...], key: str, instance: str) -> Look:
    """Wakes no daemon and changes nothing."""
    found = find(manager, root.path)
    why = manager.why_out_of_reach()
    state = manager.state(key, instance) if found is not None and why is None else None
    program = found.program if found is not None else None
    version = _version(manager, program) if program is not None else None
    daemon = _daemon(root, world)
    shown_files = tuple(_states(found, files)) if found is not None else ()
    problems = [*_of_files(shown_files), *_of_program(program, version)] if found is not None else []
    if why is not None and found is not None:
        problems.append((why, f"In a session that has one: {manager.by_hand(key, instance)}"))
    if state is not None and state.problem is not None:
        problems.append(state.problem)
    if state is not None and daemon is not None and daemon.get("origin") not in (manager.name, None):
        problems.append(
            (
                f"The daemon that runs (process {daemon.get('pid')}) was not started by {manager.name}.",
                "The next start will be: cueloop daemon stop",
            )
        )
    return Look(
        found=found,
        unit=manager.unit(key, instance),
        manager=manager.name,
        files=shown_files,
        state=state,
        out_of_reach=why,
        program=program,
        version=version,
        daemon=daemon,
        problems=tuple(problems),
        advice=manager.advice() if why is None and found is not None else (),
        gone=tuple(one.repository for one in manager.installed() if not os.path.isdir(f"{one.repository}/.cueloop")),
    )


def troubles(root: Root, manager: Manager) -> list[tuple[str, str, str]]:
    """What keeps the repository's service from starting this version's daemon: unit, what is wrong, what to do. Asks no daemon."""
    found = find(manager, root.path)
    if found is None:
        return []
    unit = manager.unit(found.key, found.instance)
    program = found.program
    problems = _of_program(program, _version(manager, program) if program is not None else None)
    state = manager.state(found.key, found.instance) if manager.why_out_of_reach() is None else None
    if state is not None and state.problem is not None:
        problems.append(state.problem)
    return [(unit, what, remedy) for what, remedy in problems]


def _states(found: Installed, files: tuple[Sealed, ...]) -> list[tuple[str, str]]:
    """Of what is the repository's own, another PATH or interpreter than this command's is no fault: that one is looked at by itself."""
    return [(path, "current" if state == "older" and path in found.paths else state) for path, state in states(files)]


def _of_files(files: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    told = {
        "missing": ("is missing", "Write it anew: cueloop service install"),
        "older": ("is not what this version would write here", "Write it anew: cueloop service install"),
        "changed": ("was changed by somebody, and counts as it is", "To have ours again: cueloop service install --force"),
        "foreign": ("is not ours, and counts as it is", "To have ours instead: cueloop service install --force"),
    }
    return [(f"{shown(path)} {told[state][0]}.", told[state][1]) for path, state in files if state in told]


def _of_program(program: str | None, version: str | None) -> list[tuple[str, str]]:
    again = "Call `cueloop service install` with the cueloop that is to be used from now on."
    if program is None:
        return []
    if not os.path.exists(program):
        return [(f"The interpreter of the service is gone: {shown(program)}.", again)]
    if version is None:
        return [(f"The interpreter of the service has no cueloopd any more: {shown(program)}.", again)]
    if version != __version__:
        where = f"{shown(program)} has version {version}, this command ({shown(sys.executable)}) is version {__version__}"
        return [(f"The service is of another version: {where}.", again)]
    return []


def _version(manager: Manager, program: str) -> str | None:
    if not os.path.isabs(program) or not os.access(program, os.X_OK):
        return None
    done = manager.tools.run((program, "-P", "-c", ASK_VERSION), QUICK)
    return done.out.strip() or None if done.code == 0 else None


def _daemon(root: Root, world: World) -> dict[str, Any] | None:
    try:
        status = ask_running(root, world, world.deadline(QUICK), "daemon.status", any_version=True)
    except Failure as exc:
        return {"state": "not answering", "reason": exc.message}
    except Exception as exc:  # an answer in another language is one, too
        return {"state": "other version", "reason": str(exc)}
    return status if status is None or isinstance(status, dict) else {"state": "other version"}

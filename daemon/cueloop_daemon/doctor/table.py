"""All checks, in the order in which they are made. A check that is not here is made by nobody."""

from __future__ import annotations

from typing import Final

from cueloop_daemon.doctor import agents, config, daemon, machine, place, queue, runs, service, session
from cueloop_daemon.doctor.sight import Check

CHECKS: Final[tuple[Check, ...]] = (
    place.folders,
    place.room,
    place.locks,
    place.private_folders,
    place.runtime_folder,
    daemon.daemon,
    daemon.locator,
    config.config,
    config.plugins,
    config.settings,
    queue.queue,
    queue.done,
    queue.lock,
    session.session,
    runs.active,
    runs.owed,
    runs.record,
    runs.left_behind,
    agents.agents,
    service.service,
    machine.git,
    machine.home,
    machine.clock,
    machine.limits,
    machine.python,
    machine.commands,
)
INSIDE: Final[frozenset[Check]] = frozenset(
    {daemon.locator, queue.queue, queue.done, queue.lock, session.session, runs.active, runs.owed, runs.record, runs.left_behind}
)
"""Those that look into `.cueloop`: where that is missing or closed, it is said once, and not of every file in it."""

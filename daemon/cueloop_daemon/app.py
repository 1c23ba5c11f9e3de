"""One running daemon: its parts started in order, kept in order, and ended in order."""

from __future__ import annotations

import logging
import os
import uuid
from functools import partial

import anyio
import anyio.to_thread

from cueloop_daemon.logs import Logs
from cueloop_daemon.parts import Own, Parts, make_own, make_parts
from cueloop_daemon.proving import StartFailed as StartFailed
from cueloop_daemon.proving import load_own_settings, refuse_newer_databases
from cueloop_daemon.proving import prove as prove
from cueloop_daemon.service.keeper import Keeper
from cueloop_daemon.serving import Serving
from cueloop_daemon.setting import MIB, Say, Setting
from cueloop_daemon.store.living_settings import follow
from cueloop_daemon.store.not_writable import NotWritable
from cueloop_daemon.store.ownership import Ownership
from cueloop_daemon.store.settings import Settings
from cueloop_daemon.store.system import System
from cueloop_daemon.takeover.bequest import Bequest
from cueloop_daemon.takeover.inheritance import Inheritance
from cueloop_daemon.takeover.overdue import end_by
from cueloop_daemon.watch.clock import SystemClock
from cueloop_daemon.workspace.workspace import Caches
from cueloop_protocol.identity import process_start_time
from cueloop_protocol.roots import Root, shown
from cueloop_protocol.values import dataclass
from cueloop_protocol.version import __version__

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Left:
    """A daemon that has left. `bequest` is to be seen off if there is one; `is_closed`: no file of it is open in this process."""

    bequest: Bequest | None
    is_closed: bool


def run_daemon(
    root: Root,
    ownership: Ownership,
    environ: dict[str, str],
    home: str,
    say: Say,
    *,
    inheritance: Inheritance | None = None,
    caches: Caches | None = None,
    keeper: Keeper,
) -> Left:
    """Serve until told to leave. `say` tells the starter that the daemon is ready; `caches` is what `prove` has read.

    Raises PlaceError, NotWritable and StartFailed where it cannot start.
    """
    setting = Setting(
        root=root,
        uid=os.getuid(),
        pid=os.getpid(),
        environ=environ,
        home=home,
        instance=uuid.uuid4().hex,
        clock=SystemClock(),
        system=System(),
        new_epoch=lambda: uuid.uuid4().hex[:16],
        overdue=end_by,
        inheritance=inheritance,
        caches=caches,
        keeper=keeper,
    )
    daemon = Daemon(setting, ownership, say)
    try:
        anyio.run(daemon.run)
    except Exception:
        if daemon.leaving.bequest is None:
            raise
        logger.exception("left_badly")
        return Left(daemon.leaving.bequest, is_closed=False)
    return Left(daemon.leaving.bequest, daemon.is_closed)


class Daemon:
    """One daemon, from its start to its end. `run` once."""

    def __init__(self, setting: Setting, ownership: Ownership, say: Say) -> None:
        self._setting = setting
        self._own: Own = make_own(setting, ownership)
        self._say = say
        self.leaving = self._own.leaving
        """Its end, which anybody may begin."""
        self.is_closed = False
        """Whether all files are let go of."""

    async def run(self) -> None:
        """Start in order, serve, leave in order. Raises StartFailed, PlaceError, NotWritable."""
        setting, own = self._setting, self._own
        settings = load_own_settings(own.caller)
        refuse_newer_databases(setting.root, setting.home)
        with Logs(f"{own.place.folder}/daemon.log", settings.now.log_level, settings.now.log_limit_mib * MIB) as logs:
            logger.info("starting root=%s pid=%d version=%s", shown(setting.root.path), setting.pid, __version__)
            if own.ownership.degraded:
                logger.warning("locks_degraded reason=%s", own.ownership.degraded)
            await self._with_hub(make_parts(own, settings), logs)
            logger.info("left reason=%s", self.leaving.reason)

    async def _with_hub(self, parts: Parts, logs: Logs) -> None:
        """The event log outlives everything that publishes."""
        async with anyio.create_task_group() as tasks:
            await tasks.start(parts.hub.run)
            try:
                await self._with_runs(parts, logs)
            finally:
                parts.hub.stop()
        self.is_closed = parts.hub.is_closed

    async def _with_runs(self, parts: Parts, logs: Logs) -> None:
        """Runs are known before anybody can ask, and go on until nobody can any more."""

        def take(changed: Settings) -> None:
            with self._setting.keeper.notifier.reloading():
                parts.take(changed, logs)

        async with anyio.create_task_group() as running:
            await running.start(parts.carriers.run)
            await running.start(parts.engine.run)
            running.start_soon(follow, parts.settings, take, parts.announcer.warn)
            await _recover(parts)
            await parts.announcer.attend(self._own.caller)
            await self._with_watch(parts)
            running.cancel_scope.cancel()

    async def _with_watch(self, parts: Parts) -> None:
        """Whoever is served is told what changes. Callers wait in the socket's queue while the watch begins."""
        serving = Serving(self._own, parts, self._say)
        measures, clock = serving.services.measures, self._setting.clock
        async with anyio.create_task_group() as tasks:
            await tasks.start(parts.watcher.run, measures.counting(parts.announcer.hint))
            tasks.start_soon(measures.watch_loop, clock.monotonic)
            await tasks.start(parts.alarm.run, parts.announcer.jumped)
            await tasks.start(parts.announcer.run)
            await tasks.start(parts.workspace.run)
            await tasks.start(partial(self.leaving.heed_signals, self._own.place.folder))
            await serving.run()
            tasks.cancel_scope.cancel()


async def _recover(parts: Parts) -> None:
    """Sweep what died with a predecessor; say what it had of others."""
    try:
        for entry in await anyio.to_thread.run_sync(parts.sessions.recover, process_start_time):
            parts.announcer.warn(f"A session file was left behind by a crash; it is kept as {entry.path}.")
    except NotWritable as exc:
        logger.warning("recovery_failed error=%s", exc)

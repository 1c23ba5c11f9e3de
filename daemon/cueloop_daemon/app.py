"""One running daemon: its parts put together, started in order, kept in order, and ended in order."""

from __future__ import annotations

import gc
import logging
import os
import signal
import uuid
from collections.abc import Callable, Coroutine
from typing import Literal, Protocol

import anyio
import anyio.to_thread
from anyio.abc import TaskStatus

from cueloop_daemon import answers
from cueloop_daemon.announcer import Announcer
from cueloop_daemon.dump.signalled import STACKS, StackSignal
from cueloop_daemon.events.hub import Hub
from cueloop_daemon.events.journal import Journal
from cueloop_daemon.housekeeping import Housekeeping
from cueloop_daemon.logs import Logs
from cueloop_daemon.place import OwnPlace
from cueloop_daemon.proving import StartFailed as StartFailed
from cueloop_daemon.proving import allow_descriptors, load_own_settings, refuse_newer_databases
from cueloop_daemon.proving import prove as prove
from cueloop_daemon.running import Running, make_engine
from cueloop_daemon.runs.engine import Engine
from cueloop_daemon.runs.own_writes import OwnWrites
from cueloop_daemon.runs.shims import ShimCarriers
from cueloop_daemon.server.handlers import TABLE
from cueloop_daemon.server.limits import Limits
from cueloop_daemon.server.listener import Listener
from cueloop_daemon.server.server import Server
from cueloop_daemon.service.keeper import Keeper
from cueloop_daemon.service.telling import StatusLine, tell
from cueloop_daemon.service.watchdog import Watchdog
from cueloop_daemon.services import Identity, Services, WatcherHealth
from cueloop_daemon.store.atomic import Author
from cueloop_daemon.store.git import Git
from cueloop_daemon.store.history import History
from cueloop_daemon.store.living_settings import LivingSettings, follow
from cueloop_daemon.store.not_writable import NotWritable
from cueloop_daemon.store.ownership import Ownership
from cueloop_daemon.store.session_store import SessionStore
from cueloop_daemon.store.settings import Settings
from cueloop_daemon.store.system import System
from cueloop_daemon.takeover.bequest import Bequest, Estate
from cueloop_daemon.takeover.inheritance import Inheritance
from cueloop_daemon.takeover.overdue import end_by, give_up
from cueloop_daemon.takeover.probes import reached
from cueloop_daemon.takeover.succession import LEAVES_WITHIN, Runs, Succession, Wanted
from cueloop_daemon.watch.alarm import Alarm
from cueloop_daemon.watch.choose import ChosenWatcher
from cueloop_daemon.watch.clock import Clock, SystemClock
from cueloop_daemon.workspace.workspace import Caches, Workspace
from cueloop_protocol.base import to_json_bytes
from cueloop_protocol.codes import RpcError, run_active, shutting_down
from cueloop_protocol.identity import boot_id, process_start_time
from cueloop_protocol.roots import Caller, Root, shown
from cueloop_protocol.shapes import Question, ShutdownReason
from cueloop_protocol.values import dataclass
from cueloop_protocol.version import __version__

logger = logging.getLogger(__name__)

MIB = 1024 * 1024


class Say(Protocol):
    """Tells the starter one thing about the start."""

    def __call__(self, **message: object) -> None: ...


@dataclass(frozen=True, slots=True)
class Setting:
    """What a daemon is started with: everything of the world that it needs. `home` is that of the user's passwd entry."""

    root: Root
    uid: int
    pid: int
    environ: dict[str, str]
    home: str
    instance: str
    clock: Clock
    system: System
    new_epoch: Callable[[], str]
    overdue: Callable[[float], None] = lambda seconds: None
    """From now on the process has so many seconds to end, whatever hangs."""
    inheritance: Inheritance | None = None
    """What a predecessor left to us."""
    caches: Caches | None = None
    """Files that were read before that."""
    keeper: Keeper = Keeper()
    """Who started us, and is to be told how we are."""


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
        if daemon.bequest is None:
            raise
        logger.exception("left_badly")
        return Left(daemon.bequest, is_closed=False)
    return Left(daemon.bequest, daemon.is_closed)


class Daemon:
    """The parts of one daemon. `run` once."""

    def __init__(self, setting: Setting, ownership: Ownership, say: Say) -> None:
        self._setting = setting
        self._ownership = ownership
        self._say = say
        self._default = Caller(setting.home, None)
        self._author = Author(setting.pid, process_start_time(setting.pid) or "")
        self._place = OwnPlace(setting.root, setting.uid, setting.home, setting.instance, self._author, setting.system)
        self._leaving = anyio.Event()
        self._writes = OwnWrites()
        self._windows: set[int] = set()
        self._questions: Callable[[], tuple[Question, ...]] = lambda: ()
        self._reason: ShutdownReason | None = None
        self._was_signalled = False
        self._succession: Succession | None = None
        self.bequest: Bequest | None = None
        """What an heir has of us, once we leave for one."""
        self.is_closed = False
        """Whether all files are let go of."""

    @property
    def heir(self) -> int | None:
        """The pid of the process that takes over just now."""
        return None if self._succession is None else self._succession.heir

    def hand_over(self, wanted: Wanted) -> None:
        """Begin to hand over; one at a time."""
        if self._succession is not None:
            self._succession.want(wanted)

    @property
    def draining(self) -> bool:
        """Whether the daemon is leaving."""
        return self._reason is not None

    def leave(self, reason: ShutdownReason) -> None:
        """Begin to leave; the first reason stands."""
        if self._reason is None:
            self._reason = reason
            logger.info("leaving reason=%s", reason)
            self._setting.keeper.notifier.stopping(f"leaving: {reason}")
            self._setting.overdue(LEAVES_WITHIN)
            self._leaving.set()

    async def run(self) -> None:
        """Start in order, serve, leave in order. Raises StartFailed, PlaceError, NotWritable."""
        settings = self._settings()
        refuse_newer_databases(self._setting.root, self._setting.home)
        with Logs(f"{self._place.folder}/daemon.log", settings.now.log_level, settings.now.log_limit_mib * MIB) as logs:
            logger.info("starting root=%s pid=%d version=%s", shown(self._setting.root.path), self._setting.pid, __version__)
            if self._ownership.degraded:
                logger.warning("locks_degraded reason=%s", self._ownership.degraded)
            await self._with_hub(settings, logs)
            logger.info("left reason=%s", self._reason)

    async def _with_hub(self, settings: LivingSettings, logs: Logs) -> None:
        """The event log outlives everything that publishes."""
        clock = self._setting.clock
        place = self._place.log_place(self._setting.new_epoch, settings.now.event_log_limit_mib * MIB, self._ownership.still_ours)
        workspace: Workspace | None = None

        def snapshot_for(audience: str | None) -> bytes:
            assert workspace is not None
            views = (view for view in workspace.views() if view.caller.key == audience and view.revision)
            view = next(views, workspace.view(None))
            return to_json_bytes(answers.subscription_snapshot(view.snapshot, clock.now(), self._questions()))

        hub = Hub(Journal(place, clock.monotonic), snapshot_for)
        setting = self._setting
        git = Git(setting.environ)
        workspace = Workspace(
            setting.root, self._default, clock=clock, next_revision=hub.next_revision, git=git, caches=setting.caches
        )
        async with anyio.create_task_group() as tasks:
            await tasks.start(hub.run)
            try:
                await self._with_parts(settings, logs, hub, workspace)
            finally:
                hub.stop()
        self.is_closed = hub.is_closed

    async def _with_parts(self, settings: LivingSettings, logs: Logs, hub: Hub, workspace: Workspace) -> None:
        def take(changed: Settings) -> None:
            with self._setting.keeper.notifier.reloading():
                logs.set(changed.log_level, changed.log_limit_mib * MIB)
                hub.set_limit(changed.event_log_limit_mib * MIB)

        alarm, watcher = Alarm(self._setting.clock), ChosenWatcher()
        announcer = Announcer(workspace, hub, self._setting.clock, alarm, watcher, self._writes)
        workspace.changed = announcer.hint
        sessions = self._session_store()
        engine, carriers = self._engine(settings, hub, workspace, sessions, announcer, alarm)
        async with anyio.create_task_group() as running:
            await running.start(carriers.run)
            await running.start(engine.run)
            running.start_soon(follow, settings, take, announcer.warn)
            await self._with_runs(settings, hub, workspace, sessions, engine, announcer, alarm, watcher)
            running.cancel_scope.cancel()

    async def _with_runs(
        self,
        settings: LivingSettings,
        hub: Hub,
        workspace: Workspace,
        sessions: SessionStore,
        engine: Engine,
        announcer: Announcer,
        alarm: Alarm,
        watcher: ChosenWatcher,
    ) -> None:
        clock = self._setting.clock
        await self._recover(sessions, announcer)
        await announcer.attend(self._default)
        listener = self._listener()
        services = self._services(workspace, hub, sessions, engine, announcer, watcher, listener)
        limits = Limits(connections=allow_descriptors(settings.now.max_connections))
        server = Server(
            TABLE, services, clock=clock, uid=self._setting.uid, limits=limits, overdue=give_up, process=self._process()
        )
        services.connections, services.counters = lambda: server.connections, server.counters
        services.measures.traffic = server.measured
        services.settings = lambda: settings.now

        def publish(socket: str) -> None:
            services.socket = shown(socket)
            self._place.publish(socket)

        house = Housekeeping(self._setting.root, self._ownership, listener, self.leave, publish, self._place.elsewhere)
        line = StatusLine(lambda: workspace.view(None).snapshot.active_run, clock.now, lambda: hub.stuck_for)
        async with anyio.create_task_group() as tasks:
            await tasks.start(watcher.run, services.measures.counting(announcer.hint))
            tasks.start_soon(services.measures.watch_loop, clock.monotonic)
            await tasks.start(alarm.run, announcer.jumped)
            await tasks.start(announcer.run)
            await tasks.start(workspace.run)
            await tasks.start(self._signals)
            await self._serve(
                server,
                listener,
                engine,
                lambda: house.run(clock, lambda: settings.now.idle_exit_minutes, server.traffic, lambda: engine.is_used),
                lambda: self._tell_keeper(line, lambda: hub.stuck_for),
            )
            tasks.cancel_scope.cancel()

    async def _serve(
        self,
        server: Server[Services],
        listener: Listener,
        engine: Engine,
        keep_house: Callable[[], Coroutine[object, object, None]],
        tell_keeper: Callable[[], Coroutine[object, object, None]],
    ) -> None:
        """From the first connection to the last."""
        async with anyio.create_task_group() as serving:
            await serving.start(server.serve, listener)
            self._place.publish(listener.path)
            logger.info("serving socket=%s", shown(listener.path))
            # What is alive by now stays: the collector, at rest until here, need never look at it.
            gc.freeze()
            gc.enable()
            reached("serving")
            if self._setting.inheritance is not None:
                self._setting.inheritance.served()
                reached("said")
            self._say(ready={"socket": listener.path, "pid": self._setting.pid})
            self._place.unmark_stopped()
            engine.serve()
            self._succession = self._successor_of(server, listener, engine)
            async with anyio.create_task_group() as keeping:
                keeping.start_soon(keep_house)
                keeping.start_soon(self._succession.run)
                keeping.start_soon(tell_keeper)
                await self._leaving.wait()
                keeping.cancel_scope.cancel()  # from here on nothing that was taken away is put back
            engine.leave()
            # First nobody finds us any more, then those who have found us are told. With an heir, all is to be found as it was.
            if self.bequest is None and self._ownership.still_ours():
                if self._reason == "stopped" and engine.active_id is not None and not self._is_managers_stop():
                    self._place.mark_stopped()
                self._place.withdraw(listener.path)
            server.close(self._reason or "stopped", has_heir=self.bequest is not None)
        reached("drained")

    async def _signals(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """TERM and INT leave, USR1 writes all stacks to the log, HUP is not for us."""
        wanted = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP)
        with anyio.open_signal_receiver(*wanted) as received, StackSignal(f"{self._place.folder}/{STACKS}") as stacks:
            task_status.started()
            async for number in received:
                if number in (signal.SIGTERM, signal.SIGINT):
                    self._was_signalled = True
                    self.leave("stopped")
                elif number == signal.SIGUSR1:
                    stacks.tell()

    def _is_managers_stop(self) -> bool:
        """A logout, an upgrade, a restart of the unit: no person wanted a run to be without a daemon."""
        return self._was_signalled and self._setting.keeper.origin.is_managed

    async def _tell_keeper(self, line: StatusLine, stuck_for: Callable[[], float]) -> None:
        """Tell the service manager that we serve, and how, and that we live."""
        keeper = self._setting.keeper
        if not keeper.notifier:
            return
        keeper.notifier.ready(line.text())
        async with anyio.create_task_group() as telling:
            telling.start_soon(tell, keeper.notifier, line.text)
            if keeper.origin.watchdog is not None:
                dog = Watchdog(keeper.notifier, keeper.origin.watchdog, stuck_for, lambda: os.stat(self._place.folder))
                telling.start_soon(dog.run)

    def _listener(self) -> Listener:
        activated = self._setting.keeper.activated
        if activated is not None:
            return Listener.adopt(os.dup(activated.fd), activated.path)
        found = self._setting.inheritance
        if found is None:
            return self._place.bind(self._setting.environ)
        listener = Listener.inherit(found.listener, found.path, found.identity)
        reached("bound")
        return listener

    def _process(self) -> dict[str, object]:
        return {"pid": self._setting.pid, "start_time": self._author.start_time, "boot_id": boot_id()}

    def _successor_of(self, server: Server[Services], listener: Listener, engine: Engine) -> Succession:
        def estate() -> Estate:
            assert listener.identity is not None  # a manager's socket is given to nobody
            setting = self._setting
            return Estate(
                setting.root, setting.uid, listener.duplicate(), listener.path, listener.identity, *self._ownership.descriptors
            )

        def why_not(runs: Runs) -> RpcError | None:
            if self.draining:
                return shutting_down(self._reason, self._process())
            active = engine.active_id
            return run_active(active) if active is not None and runs != "leave" else None

        def go(bequest: Bequest) -> None:
            self.bequest = bequest
            self.leave("replaced")

        return Succession(estate, why_not, lambda: server.durable_calls, go)

    async def _recover(self, sessions: SessionStore, announcer: Announcer) -> None:
        """Sweep what died with a predecessor; say what it had of others."""
        try:
            for entry in await anyio.to_thread.run_sync(sessions.recover, process_start_time):
                announcer.warn(f"A session file was left behind by a crash; it is kept as {entry.path}.")
        except NotWritable as exc:
            logger.warning("recovery_failed error=%s", exc)

    def _services(
        self,
        workspace: Workspace,
        hub: Hub,
        sessions: SessionStore,
        engine: Engine,
        announcer: Announcer,
        watcher: ChosenWatcher,
        listener: Listener,
    ) -> Services:
        setting, clock = self._setting, self._setting.clock
        return Services(
            root=setting.root,
            identity=Identity(
                setting.pid,
                __version__,
                setting.instance,
                clock.now(),
                clock.monotonic(),
                start_time=self._author.start_time,
                boot_id=boot_id(),
                origin=setting.keeper.origin.name,
            ),
            workspace=workspace,
            hub=hub,
            sessions=sessions,
            engine=engine,
            life=self,
            watcher=lambda: WatcherHealth(_backend(watcher.backend), watcher.degraded),
            connections=lambda: 0,
            counters=dict,
            look_again=announcer.hint,
            attend=announcer.attend,
            warn=announcer.warn,
            socket=shown(listener.path),
            folder=self._place.shown_folder,
            log=f"{self._place.shown_folder}/daemon.log",
            is_managed=listener.identity is None,
            active_windows=self._windows,
            environ=setting.environ,
        )

    def _engine(
        self,
        settings: LivingSettings,
        hub: Hub,
        workspace: Workspace,
        sessions: SessionStore,
        announcer: Announcer,
        alarm: Alarm,
    ) -> tuple[Engine, ShimCarriers]:
        setting = self._setting
        engine, carriers = make_engine(
            Running(
                root=setting.root,
                uid=setting.uid,
                author=self._author,
                environ=setting.environ,
                system=setting.system,
                clock=setting.clock,
                place=self._place,
                still_ours=self._ownership.still_ours,
                hub=hub,
                workspace=workspace,
                sessions=sessions,
                settings=lambda: settings.now,
                writes=self._writes,
                sleep_until=alarm.wait_until,
                is_watched=lambda: bool(self._windows),
                warn=announcer.warn,
                changed=announcer.hint,
            )
        )
        self._questions = lambda: engine.questions
        return engine, carriers

    def _settings(self) -> LivingSettings:
        return load_own_settings(self._default)

    def _session_store(self) -> SessionStore:
        setting = self._setting
        return SessionStore(
            setting.root,
            system=setting.system,
            clock=setting.clock.now,
            history=History(setting.root, setting.system, self._author, setting.uid),
            author=self._author,
            uid=setting.uid,
            still_ours=self._ownership.still_ours,
        )


def _backend(name: str) -> Literal["inotify", "watchfiles", "polling"]:
    match name:
        case "inotify" | "watchfiles":
            return name
        case _:
            return "polling"

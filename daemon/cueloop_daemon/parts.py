"""The parts of one daemon, made and not yet begun. Nothing here touches a file; `app` has the order in which they begin and end."""

from __future__ import annotations

from typing import Literal

from cueloop_daemon import answers
from cueloop_daemon.announcer import Announcer
from cueloop_daemon.events.hub import Hub
from cueloop_daemon.events.journal import Journal
from cueloop_daemon.leaving import Leaving
from cueloop_daemon.logs import Logs
from cueloop_daemon.place import OwnPlace
from cueloop_daemon.running import Running, make_engine
from cueloop_daemon.runs.engine import Engine
from cueloop_daemon.runs.own_writes import OwnWrites
from cueloop_daemon.runs.shims import ShimCarriers
from cueloop_daemon.server.listener import Listener
from cueloop_daemon.services import Identity, Services, WatcherHealth
from cueloop_daemon.setting import MIB, Setting
from cueloop_daemon.store.atomic import Author
from cueloop_daemon.store.git import Git
from cueloop_daemon.store.history import History
from cueloop_daemon.store.living_settings import LivingSettings
from cueloop_daemon.store.ownership import Ownership
from cueloop_daemon.store.session_store import SessionStore
from cueloop_daemon.store.settings import Settings
from cueloop_daemon.watch.alarm import Alarm
from cueloop_daemon.watch.choose import ChosenWatcher
from cueloop_daemon.workspace.workspace import Workspace
from cueloop_protocol.base import to_json_bytes
from cueloop_protocol.identity import boot_id, process_start_time
from cueloop_protocol.roots import Caller, shown
from cueloop_protocol.values import dataclass
from cueloop_protocol.version import __version__


@dataclass(frozen=True, slots=True)
class Own:
    """What is a daemon's own before it has any part."""

    setting: Setting
    ownership: Ownership
    leaving: Leaving
    caller: Caller
    """The daemon's own user, for whom it announces whoever calls."""
    author: Author
    place: OwnPlace

    @property
    def process(self) -> dict[str, object]:
        """The very process, for whoever has to wait for its end."""
        return {"pid": self.setting.pid, "start_time": self.author.start_time, "boot_id": boot_id()}


@dataclass(frozen=True, slots=True)
class Parts:
    """All that runs beside the server. `windows`: connections whose client says that its window is in front."""

    settings: LivingSettings
    hub: Hub
    workspace: Workspace
    sessions: SessionStore
    alarm: Alarm
    watcher: ChosenWatcher
    announcer: Announcer
    engine: Engine
    carriers: ShimCarriers
    windows: set[int]

    def take(self, changed: Settings, logs: Logs) -> None:
        """From now on these settings hold."""
        logs.set(changed.log_level, changed.log_limit_mib * MIB)
        self.hub.set_limit(changed.event_log_limit_mib * MIB)


def make_own(setting: Setting, ownership: Ownership) -> Own:
    """Who the daemon is, and where its own things are."""
    author = Author(setting.pid, process_start_time(setting.pid) or "")
    place = OwnPlace(setting.root, setting.uid, setting.home, setting.instance, author, setting.system)
    return Own(setting, ownership, Leaving(setting), Caller(setting.home, None), author, place)


def make_parts(own: Own, settings: LivingSettings) -> Parts:
    """All parts, each knowing those that it needs."""
    setting, clock, windows, writes = own.setting, own.setting.clock, set[int](), OwnWrites()
    log_place = own.place.log_place(setting.new_epoch, settings.now.event_log_limit_mib * MIB, own.ownership.still_ours)

    def snapshot_for(audience: str | None) -> bytes:
        views = (view for view in workspace.views() if view.caller.key == audience and view.revision)
        view = next(views, workspace.view(None))
        return to_json_bytes(answers.subscription_snapshot(view.snapshot, clock.now(), engine.questions))

    hub = Hub(Journal(log_place, clock.monotonic), snapshot_for)
    git = Git(setting.environ)
    workspace = Workspace(setting.root, own.caller, clock=clock, next_revision=hub.next_revision, git=git, caches=setting.caches)
    alarm, watcher, sessions = Alarm(clock), ChosenWatcher(), _sessions(own)
    announcer = Announcer(workspace, hub, clock, alarm, watcher, writes)
    workspace.changed = announcer.hint
    engine, carriers = make_engine(
        Running(
            root=setting.root,
            uid=setting.uid,
            author=own.author,
            environ=setting.environ,
            system=setting.system,
            clock=clock,
            place=own.place,
            still_ours=own.ownership.still_ours,
            hub=hub,
            workspace=workspace,
            sessions=sessions,
            settings=lambda: settings.now,
            writes=writes,
            sleep_until=alarm.wait_until,
            is_watched=lambda: bool(windows),
            warn=announcer.warn,
            changed=announcer.hint,
        )
    )
    return Parts(settings, hub, workspace, sessions, alarm, watcher, announcer, engine, carriers, windows)


def make_services(own: Own, parts: Parts, listener: Listener) -> Services:
    """What handlers can reach. Counters and connections are the server's, which is made with these."""
    setting, clock, watcher = own.setting, own.setting.clock, parts.watcher
    return Services(
        root=setting.root,
        identity=Identity(
            setting.pid,
            __version__,
            setting.instance,
            clock.now(),
            clock.monotonic(),
            start_time=own.author.start_time,
            boot_id=boot_id(),
            origin=setting.keeper.origin.name,
        ),
        workspace=parts.workspace,
        hub=parts.hub,
        sessions=parts.sessions,
        engine=parts.engine,
        life=own.leaving,
        watcher=lambda: WatcherHealth(_backend(watcher.backend), watcher.degraded),
        connections=lambda: 0,
        counters=dict,
        look_again=parts.announcer.hint,
        attend=parts.announcer.attend,
        warn=parts.announcer.warn,
        socket=shown(listener.path),
        folder=own.place.shown_folder,
        log=f"{own.place.shown_folder}/daemon.log",
        settings=lambda: parts.settings.now,
        is_managed=listener.identity is None,
        active_windows=parts.windows,
        environ=setting.environ,
    )


def _sessions(own: Own) -> SessionStore:
    setting = own.setting
    return SessionStore(
        setting.root,
        system=setting.system,
        clock=setting.clock.now,
        history=History(setting.root, setting.system, own.author, setting.uid),
        author=own.author,
        uid=setting.uid,
        still_ours=own.ownership.still_ours,
    )


def _backend(name: str) -> Literal["inotify", "watchfiles", "polling"]:
    match name:
        case "inotify" | "watchfiles":
            return name
        case _:
            return "polling"

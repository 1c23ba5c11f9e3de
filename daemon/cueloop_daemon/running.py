"""The run engine put together for one daemon."""

from __future__ import annotations

import logging
import os
import sys
import uuid
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from importlib import import_module

import anyio.to_thread

from cueloop_daemon.core.model import ActiveRun, OwedTask, Snapshot
from cueloop_daemon.core.runs.profiles import UnknownProfile, with_profile
from cueloop_daemon.core.stamps import format_stamp
from cueloop_daemon.events.hub import Hub
from cueloop_daemon.place import OwnPlace
from cueloop_daemon.runs.active import active_bytes, active_path, remove_active
from cueloop_daemon.runs.engine import Engine
from cueloop_daemon.runs.face import Face
from cueloop_daemon.runs.lane import DbLane
from cueloop_daemon.runs.owed_file import write_owed
from cueloop_daemon.runs.own_writes import OwnWrites
from cueloop_daemon.runs.shim import RunFolders, judge_with, system_processes
from cueloop_daemon.runs.shims import ShimCarriers, ShimSetting
from cueloop_daemon.runs.state import State
from cueloop_daemon.runs.surroundings import Living, Surroundings
from cueloop_daemon.runs.types import Journal, OwedRow, World
from cueloop_daemon.service.origin import WOKEN
from cueloop_daemon.store.atomic import Author, write_file
from cueloop_daemon.store.session_store import SessionStore
from cueloop_daemon.store.settings import Settings
from cueloop_daemon.store.system import System
from cueloop_daemon.watch.clock import Clock
from cueloop_daemon.workspace.workspace import Workspace
from cueloop_protocol import codes
from cueloop_protocol.documents.config import Config
from cueloop_protocol.identity import boot_id
from cueloop_protocol.params import RunStartParams
from cueloop_protocol.roots import Caller, Root
from cueloop_protocol.values import dataclass

logger = logging.getLogger(__name__)

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Running:
    """What of the daemon the engine is made from."""

    root: Root
    uid: int
    author: Author
    environ: Mapping[str, str]
    system: System
    clock: Clock
    place: OwnPlace
    still_ours: Callable[[], bool]
    hub: Hub
    workspace: Workspace
    sessions: SessionStore
    settings: Callable[[], Settings]
    writes: OwnWrites
    sleep_until: Callable[[datetime], Awaitable[None]]
    is_watched: Callable[[], bool]
    warn: Callable[[str], None]
    changed: Callable[[], None]


def make_engine(parts: Running) -> tuple[Engine, ShimCarriers]:
    """The engine, and the keeper of its connections to shims, which must run as long as it does."""
    lane = DbLane(parts.place.runs_place(parts.still_ours))
    face = Face(lambda run: _show(parts, run), lambda run: _write_active(parts, run))
    folders = RunFolders(parts.root, parts.uid)
    carriers = ShimCarriers(folders, _shim_setting(parts, folders))
    around = Surroundings(
        lane=lane,
        hub=parts.hub,
        carriers=carriers,
        face=face,
        program=_program,
        worlds=lambda living: _world(parts, lane, face, living),
        ready=_load,
        look=lambda caller: _look(parts.workspace, caller),
        settle_config=_settle_config,
        revision=lambda: _revision(parts.workspace),
        now=parts.clock.now,
        stamp=lambda: format_stamp(parts.clock.now()),
        new_id=_new_id,
        boot_id=boot_id(),
        history=lambda: parts.settings().run_history_limit,
        warn=parts.warn,
        changed=parts.changed,
        owed=lambda rows: _owed_changed(parts, rows),
    )
    return Engine(around), carriers


async def _program(state: State, journal: Journal, world: World) -> State:
    from cueloop_daemon.runs.program import run_program

    return await run_program(state, journal, world)


async def _world(parts: Running, lane: DbLane, face: Face, living: Living) -> World:
    from cueloop_daemon.runs.worlds import WorldMaker

    maker = WorldMaker(
        root=parts.root,
        system=parts.system,
        author=parts.author,
        still_ours=parts.still_ours,
        sessions=parts.sessions,
        lane=lane,
        hub=parts.hub,
        face=face,
        clock=parts.clock,
        new_id=_new_id,
        look=lambda caller: _look(parts.workspace, caller),
        revision=lambda: _revision(parts.workspace),
        sleep_until=parts.sleep_until,
        settings=parts.settings,
        is_watched=parts.is_watched,
        writes=parts.writes,
        owed_changed=lambda rows: _owed_changed(parts, rows),
    )
    return await maker(living)


def _load() -> None:
    """Program, runners and all that only a run needs: a third of what a daemon would load, and most of them never run one."""
    import_module("cueloop_daemon.runs.program")
    import_module("cueloop_daemon.runs.worlds")


def _shim_setting(parts: Running, folders: RunFolders) -> ShimSetting:
    def is_alive(run_id: str) -> bool | None:
        """Whether a run of this repository has its shim; None for one that is of another."""
        folder = folders.find(run_id)
        if folder is None:
            return None
        try:
            return folder.is_held()
        finally:
            folder.close()

    return ShimSetting(
        root=parts.root,
        uid=parts.uid,
        own_pid=os.getpid(),
        boot_now=boot_id(),
        executable=sys.executable,
        daemon_argv=_daemon_argv(parts.root),
        daemon_env={**parts.environ, WOKEN: "demand"},
        budget=lambda: parts.settings().run_output_limit_mib * MIB,
        judge=judge_with(lambda: (os.getpid(),), is_alive),
        processes=system_processes(),
        warn=parts.warn,
    )


def _daemon_argv(root: Root) -> tuple[str, ...]:
    """As clients start a daemon: this interpreter, no working directory on its path."""
    flags = ("-P", "-s") if sys.flags.no_user_site else ("-P",)
    return (sys.executable, *flags, "-m", "cueloop_daemon", "--root", root.path)


def _settle_config(config: Config, asked: RunStartParams) -> Config:
    found = with_profile(config, asked.overrides.profile)
    if isinstance(found, UnknownProfile):
        raise codes.document_unusable("config_incompatible", found.message, found.detail)
    return found


async def _look(workspace: Workspace, caller: Caller) -> Snapshot:
    view = workspace.view(caller)
    await workspace.refresh(view)
    return view.snapshot


def _revision(workspace: Workspace) -> int:
    return workspace.view(None).revision


def _show(parts: Running, run: ActiveRun | None) -> None:
    parts.workspace.show_run(run)


def _write_active(parts: Running, run: ActiveRun | None) -> None:
    if run is None:
        remove_active(parts.root)
    else:
        # Nobody believes it once the shim is gone, as it is when the machine was.
        write_file(parts.system, active_path(parts.root), active_bytes(run), parts.author, durable=False)


async def _owed_changed(parts: Running, rows: tuple[OwedRow, ...]) -> None:
    owed = tuple(OwedTask(row.task_id, row.session_etag) for row in rows)
    parts.workspace.show_owed(owed)
    try:
        await anyio.to_thread.run_sync(
            write_owed, parts.root, owed, lambda path, data: write_file(parts.system, path, data, parts.author)
        )
    except OSError as exc:
        logger.warning("owed_not_written error=%s", exc)


def _new_id() -> str:
    return str(uuid.uuid4())

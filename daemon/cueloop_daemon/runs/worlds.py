"""Making worlds: which part of the daemon stands behind what a run's program reaches."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial

import anyio.to_thread

from cueloop_daemon.core.model import Snapshot
from cueloop_daemon.events.hub import Hub
from cueloop_daemon.runners import PluginFacts, plugin_runners
from cueloop_daemon.runs.children import NotingLink
from cueloop_daemon.runs.face import Face
from cueloop_daemon.runs.kept import ConversationBook, LastSession, OwedRows, StopMarkerFile
from cueloop_daemon.runs.lane import DbLane
from cueloop_daemon.runs.notify import DesktopNotify
from cueloop_daemon.runs.output import OutputTeller
from cueloop_daemon.runs.own_writes import CountedFiles, OwnWrites
from cueloop_daemon.runs.prompts import PromptFiles
from cueloop_daemon.runs.surroundings import Living
from cueloop_daemon.runs.types import OwedRow
from cueloop_daemon.runs.world import AskedQuestions, RunWorld, TellingFolder
from cueloop_daemon.store.atomic import Author
from cueloop_daemon.store.queue_write import QueueFiles
from cueloop_daemon.store.session_store import SessionStore
from cueloop_daemon.store.session_writer import RunSessionWriter
from cueloop_daemon.store.settings import Settings
from cueloop_daemon.store.system import System
from cueloop_daemon.store.trees import GitTrees
from cueloop_daemon.watch.clock import Clock
from cueloop_daemon.workspace.files import read_regular
from cueloop_protocol.documents.config import Config
from cueloop_protocol.roots import Caller, Root, expand
from cueloop_protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class WorldMaker:
    """See `surroundings.Worlds`. Calling it makes one world."""

    root: Root
    system: System
    author: Author
    still_ours: Callable[[], bool]
    sessions: SessionStore
    lane: DbLane
    hub: Hub
    face: Face
    clock: Clock
    new_id: Callable[[], str]
    look: Callable[[Caller], Awaitable[Snapshot]]
    revision: Callable[[], int]
    sleep_until: Callable[[datetime], Awaitable[None]]
    settings: Callable[[], Settings]
    is_watched: Callable[[], bool]
    """Whether a window of a client is in front."""
    writes: OwnWrites
    owed_changed: Callable[[tuple[OwedRow, ...]], Awaitable[None]]

    async def __call__(self, living: Living) -> RunWorld:
        """Blocking parts are read in a worker thread."""
        return await anyio.to_thread.run_sync(self._make, living, (await self.look(living.run.caller)).trusted)

    def _make(self, living: Living, trusted: bool) -> RunWorld:
        run, config, journal = living.run, living.config, living.journal
        settings = self.settings()
        teller = OutputTeller(run.run_id, self.hub, self.clock.monotonic, self.revision)
        queue, done = (expand(name, self.root, run.caller) for name in (config.queue.file, config.queue.done_file))
        last = LastSession(self.lane, run.run_id)
        made = RunWorld(
            run=run,
            root=self.root,
            config=config,
            link=NotingLink(living.carrier.link, self.lane, run.run_id, living.flushed),
            folder=TellingFolder(living.carrier.folder, teller.told),
            files=CountedFiles(
                QueueFiles(queue.io, done.io, self.system, self.author, self.still_ours), self.writes, (queue.io, done.io)
            ),
            sessions=RunSessionWriter(self.sessions, self.system, self.clock.now, last.etags(), last.remember),
            trees=GitTrees(self.root, run.caller, run.env, self._apart(queue.io, done.io)),
            questions=AskedQuestions(living.desk, run.run_id, self.sleep_until),
            conversations=ConversationBook(self.lane, journal),
            notify=DesktopNotify(
                config.agent.notification,
                run.params.overrides,
                run.env,
                lambda name: made.find_program(name),
                self.is_watched,
            ),
            prompts=PromptFiles(self.root, tuple(config.agent.instruction_files or ()), run.caller),
            owed=OwedRows(self.lane, self.owed_changed),
            stop_marker=StopMarkerFile(self.root, self.system),
            plugins=self._plugins(config, run.caller, trusted),
            idle_seconds=_seconds(settings.agent_idle_minutes),
            wall_seconds=_seconds(settings.agent_wall_minutes),
            question_minutes=settings.question_minutes,
            teller=teller,
            now=self.clock.now,
            new_id=self.new_id,
            show_state=lambda task_id, phase, state: self._show(living, task_id, phase, state),
            look_now=partial(self.look, run.caller),
            sleep_to=self.sleep_until,
        )
        return made

    def _show(self, living: Living, task_id: str | None, phase: str | None, state: str) -> None:
        self.face.change(task_id=task_id, phase=phase, state=state)
        living.journal.show(self.face.view())

    def _apart(self, *paths: str) -> tuple[str, ...]:
        """Those of the paths that are in the repository, relative to it."""
        relative = (os.path.relpath(path, self.root.base) for path in paths)
        return tuple(path for path in relative if not path.startswith(".."))

    def _plugins(self, config: Config, caller: Caller, trusted: bool) -> dict[str, PluginFacts]:
        return dict(plugin_runners(self.root, caller, config, lambda path: read_regular(path)[0], trusted=trusted))


def _seconds(minutes: int) -> float | None:
    return None if minutes == 0 else minutes * 60.0

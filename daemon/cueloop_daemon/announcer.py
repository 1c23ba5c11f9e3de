"""The watch: looks at the repository when something hints at a change or a moment has come, and announces what is different."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Protocol

import anyio
from anyio.abc import TaskStatus

from cueloop_daemon import answers
from cueloop_daemon.core.announce import (
    Announcement,
    DecisionChanged,
    DocumentChanged,
    FaultAppeared,
    QueueChanged,
    Standing,
    announced,
    announcements,
    fault_of,
    standing_from_json,
    standing_to_json,
)
from cueloop_daemon.core.horizon import horizon
from cueloop_daemon.core.model import QueueMissing, SessionMissing, Snapshot
from cueloop_daemon.core.resolve import document_paths, resolve_document
from cueloop_daemon.core.stamps import format_stamp
from cueloop_daemon.events.hub import Hub, HubClosed, Overloaded
from cueloop_daemon.events.model import Announced, NewEvent
from cueloop_daemon.runs.own_writes import OwnWrites
from cueloop_daemon.watch.alarm import Alarm
from cueloop_daemon.watch.clock import Clock, ClockJump
from cueloop_daemon.workspace.view import View
from cueloop_daemon.workspace.workspace import Workspace
from cueloop_protocol.documents.config import Config
from cueloop_protocol.documents.envelope import (
    ConfigPayload,
    ConfigResolved,
    Event,
    PathsPayload,
    QueueSnapshot,
    ResumeDecision,
    Warned,
    event_bytes,
)
from cueloop_protocol.documents.resolve import ResolveDocument, resolve_json
from cueloop_protocol.roots import Caller

logger = logging.getLogger(__name__)

HALF_WRITTEN = 0.3
"""Seconds that a file which cannot be used must stand unchanged before that is announced; writers pause between their steps."""

GONE_FOR = 0.05
"""Seconds that a session file must be gone before that is announced: some editors save by renaming the old file away first."""

HOLDER_LOOK = 2.0
"""Seconds between two looks at who holds the queue lock: a holder that is killed changes no file."""

BREATH = 0.05
"""Seconds from one look to the next while a run is active: its own writes hint many times each, and have no news for the watch.

A look would hold up the run whose files it looks at. What somebody else changes meanwhile is announced so much later at most.
"""


class PathsWatched(Protocol):
    """What the announcer needs of the watcher."""

    def set_paths(self, folders: frozenset[str], files: frozenset[str]) -> None: ...


@dataclass(slots=True)
class _Audience:
    """One caller's announcements: what stands as said, and what is held back until it has stood long enough."""

    view: View
    said: Standing
    own_writes: int
    """How many of a run's own writes of the queue are no news any more."""
    is_in_own_write: bool = False
    """Whether the last look fell into such a write, so that nothing is known of the queue."""
    doubtful: Standing | None = None
    doubtful_since: float = 0.0


class Announcer:
    """Turns differences between snapshots into events, for every audience that somebody listens for. One `run` at a time."""

    def __init__(
        self, workspace: Workspace, hub: Hub, clock: Clock, alarm: Alarm, watched: PathsWatched, writes: OwnWrites
    ) -> None:
        self._workspace = workspace
        self._hub = hub
        self._clock = clock
        self._alarm = alarm
        self._watched = watched
        self._writes = writes
        self._audiences: dict[str, _Audience] = {}
        self._hinted = anyio.Event()
        self._looking = anyio.Lock()
        self._wait_for: tuple[datetime | None, float | None] = (None, None)

    def hint(self) -> None:
        """Something may have changed: look soon."""
        self._hinted.set()

    async def attend(self, caller: Caller) -> View:
        """Announce for this caller while somebody is subscribed for it, which has to be so before anything else is awaited.

        Returns when what changed since its last announcement has been published.
        """
        view = self._workspace.view(caller)
        async with self._looking:
            writes = self._writes.finished
            await self._workspace.refresh(view)
            if caller.key not in self._audiences:
                await self._hub.flush()  # what was said to it before may only now be on its way into the log
                kept = self._hub.announced(caller.key)
                said = None if kept is None else standing_from_json(json.loads(kept))
                now = self._standing(view)
                self._audiences[caller.key] = _Audience(view, said or now, writes)
                if said is None:
                    self._remember(caller.key, now)
            self._audiences[caller.key].view = view
            self._workspace.listened = self._callers()
            self._compare(self._audiences[caller.key], writes)
            waits_for = self._wait_for
            self._watch_all()
            if self._wait_for != waits_for:
                self.hint()
        return view

    async def look(self) -> None:
        """Look at everything now, and publish what is different."""
        async with self._looking:
            self._drop_unheard()
            for audience in list(self._audiences.values()):
                audience.view = self._workspace.view(audience.view.caller)
                writes = self._writes.finished
                await self._workspace.refresh(audience.view)
                if self._compare(audience, writes):
                    self._workspace.look_at_dirt_soon(audience.view)
            self._watch_all()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Look at each hint and at each moment at which an answer changes by itself, until cancelled.

        Once at the beginning, too: what changed between the last look and the watcher's start hinted to nobody.
        """
        self.hint()
        task_status.started()
        while True:
            await self._wait()
            self._hinted = anyio.Event()
            try:
                await self.look()
            except HubClosed:
                return
            if self._workspace.active_run is not None:
                await anyio.sleep(BREATH)

    def jumped(self, jump: ClockJump) -> None:
        """Announce that the clock was set or the machine slept, and look again: ages are different now."""
        words = {
            "set": f"The clock was set by {jump.seconds:+.0f} s.",
            "sleep": f"The machine slept for {jump.seconds:.0f} s.",
            "stop": f"The daemon was stopped for {jump.seconds:.0f} s.",
        }
        self.warn(f"{words[jump.kind]} Ages and schedules were looked at again.")
        self.hint()

    def warn(self, message: str, caller: Caller | None = None) -> None:
        """Publish a `warning` of the watch."""
        logger.warning("warning message=%s", message)
        event = Warned(timestamp=self._stamp(), message=message)
        revision = self._workspace.view(caller).revision
        self._publish([_new_event(event, None if caller is None else caller.key, revision)])

    def _drop_unheard(self) -> None:
        """Whoever has no subscriber any more costs nothing. The log remembers what was said to it."""
        heard = {self._workspace.default.key, *self._hub.audiences}
        self._audiences = {key: audience for key, audience in self._audiences.items() if key in heard}
        self._workspace.listened = self._callers()

    def _callers(self) -> frozenset[Caller]:
        return frozenset(audience.view.caller for audience in self._audiences.values())

    async def _wait(self) -> None:
        moment, delay = self._wait_for
        async with anyio.create_task_group() as waiting:
            if moment is not None:
                waiting.start_soon(self._hint_at, moment)
            if delay is not None:
                waiting.start_soon(self._hint_after, delay)
            await self._hinted.wait()
            waiting.cancel_scope.cancel()

    async def _hint_at(self, moment: datetime) -> None:
        await self._alarm.wait_until(moment)
        self.hint()

    async def _hint_after(self, delay: float) -> None:
        await anyio.sleep(delay)
        self.hint()

    def _compare(self, audience: _Audience, writes: int) -> bool:
        """Publish what is different for this audience; True if anything was. `writes`: a run's that were over before the look."""
        now = self._without_own(audience, self._standing(audience.view), writes)
        mute = _is_somebody_running(audience.view.snapshot)
        found = announcements(audience.said, now, mute_decisions=mute)
        if not found:
            audience.doubtful = None
            return False
        if self._is_held_back(audience, now):
            return False
        audience.doubtful = None
        key = audience.view.caller.key
        revision = audience.view.revision
        events = [_new_event(event, key, revision) for event in self._events(found, audience.view)]
        audience.said = announced(audience.said, now, mute_decisions=mute)
        self._publish(events, Announced(key, json.dumps(standing_to_json(audience.said)).encode()))
        return True

    def _without_own(self, audience: _Audience, now: Standing, writes: int) -> Standing:
        """What a run has done to the queue it announces itself; while it is at it, nothing about the queue is known.

        What was read is the run's own doing only if it is what the run left there: somebody may have written since.
        """
        audience.is_in_own_write = self._writes.under_way > 0 or self._writes.finished != writes
        if audience.is_in_own_write:
            return replace(now, queue=audience.said.queue)
        if audience.own_writes != writes:
            audience.own_writes = writes
            if self._writes.are_in(audience.view.loaded):
                audience.said = replace(audience.said, queue=now.queue)
                self._remember(audience.view.caller.key, audience.said)
        return now

    def _is_held_back(self, audience: _Audience, now: Standing) -> bool:
        """Whether this may be the middle of somebody's writing, and has not stood long enough to be believed."""
        needed = self._doubt(audience, now)
        if needed == 0:
            return False
        if audience.doubtful != now:
            audience.doubtful, audience.doubtful_since = now, self._clock.monotonic()
        return self._clock.monotonic() - audience.doubtful_since < needed

    def _doubt(self, audience: _Audience, now: Standing) -> float:
        snapshot = audience.view.snapshot
        if snapshot.settling or (now.fault is not None and audience.said.fault != now.fault):
            return HALF_WRITTEN
        if isinstance(snapshot.queue, QueueMissing) and audience.said.queue != now.queue:
            return GONE_FOR
        if isinstance(snapshot.session, SessionMissing) and audience.said.decision is not None:
            return GONE_FOR
        return 0

    def _events(self, found: list[Announcement], view: View) -> list[Event]:
        stamp, snapshot = self._stamp(), view.snapshot
        events: list[Event] = []
        for one in found:
            match one:
                case QueueChanged():
                    events.append(QueueSnapshot(timestamp=stamp, payload=PathsPayload(paths=document_paths(snapshot.paths))))
                case DecisionChanged(decision):
                    events.append(
                        ResumeDecision(timestamp=stamp, task_id=decision.task_id, message=decision.message, payload=decision)
                    )
                case DocumentChanged():
                    events.append(ConfigResolved(timestamp=stamp, payload=ConfigPayload(config=self._document(snapshot))))
                case FaultAppeared(message):
                    events.append(Warned(timestamp=stamp, message=message))
        return events

    def _standing(self, view: View) -> Standing:
        snapshot = view.snapshot
        fault = fault_of(snapshot.config, snapshot.queue)
        queue = view.loaded.queue_digest if view.loaded is not None else ""
        if fault is not None or not isinstance(snapshot.config, Config):
            return Standing(None, None, None, queue, fault)
        document = self._document(snapshot)
        settings = document.model_copy(update={"resume_preview": None})
        return Standing(document.resume_preview, _digest(document), _digest(settings), queue, None)

    def _document(self, snapshot: Snapshot) -> ResolveDocument:
        return resolve_document(snapshot, answers.preview(snapshot, self._clock.now(), task_id=None, resume=True))

    def _watch_all(self) -> None:
        """Keep the watcher at what the answers depend on, and the timers at when they change."""
        folders: set[str] = set()
        files: set[str] = set()
        moments: list[datetime] = []
        delays: list[float] = []
        now = self._clock.now()
        for audience in self._audiences.values():
            loaded = audience.view.loaded
            if loaded is None:
                continue
            for thing in loaded.inputs:
                (folders if thing.is_folder else files).add(thing.path)
            moment = horizon(audience.view.snapshot, now)
            if moment is not None:
                moments.append(moment)
            if loaded.settles_at_ns is not None or audience.doubtful is not None:
                delays.append(GONE_FOR if audience.doubtful is not None and audience.doubtful.fault is None else HALF_WRITTEN / 3)
            if audience.is_in_own_write:
                delays.append(BREATH)
            if loaded.lock is not None and loaded.lock.live:
                delays.append(HOLDER_LOOK)
            if loaded.unsettled:
                moments.append(now + timedelta(milliseconds=25))
        self._watched.set_paths(frozenset(folders), frozenset(files))
        self._wait_for = (min(moments, default=None), min(delays, default=None))

    def _remember(self, key: str, standing: Standing) -> None:
        self._publish([], Announced(key, json.dumps(standing_to_json(standing)).encode()))

    def _publish(self, events: list[NewEvent], remembered: Announced | None = None) -> None:
        try:
            self._hub.publish_all(events, remembered)
        except HubClosed:
            logger.debug("event after the end of the log dropped")
        except Overloaded:
            # The subscribers' next snapshot has what this would have said.
            logger.error("event_dropped reason=%s", "more events wait than memory is given for")

    def _stamp(self) -> str:
        return format_stamp(self._clock.now())


def _new_event(event: Event, audience: str | None, revision: int) -> NewEvent:
    params = b'{"revision":%d,"origin":"watch","event":%b}' % (revision, event_bytes(event))
    return NewEvent("event", event.kind, None, audience, params)


def _digest(document: ResolveDocument) -> str:
    return sha256(resolve_json(document)).hexdigest()


def _is_somebody_running(snapshot: Snapshot) -> bool:
    """While a run is active, here or in another tool, the watch does not judge its session."""
    return snapshot.active_run is not None or answers.is_run_lock(snapshot.lock)

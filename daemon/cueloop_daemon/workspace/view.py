"""One caller's view of the repository: the current Snapshot, whether it still is, and answers kept as bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import anyio

from cueloop_daemon.core.horizon import horizon
from cueloop_daemon.core.model import ActiveRun, OwedTask, QueueLock, Snapshot
from cueloop_daemon.workspace.files import Input, are_unchanged, telling
from cueloop_daemon.workspace.loading import Loaded, is_settling
from cueloop_protocol.roots import Caller
from cueloop_protocol.values import dataclass

DIRTY_SECONDS = 2.0
"""How long the answer of `git status` is kept, since git is slow (seconds of the monotonic clock)."""

FOR_EVER = timedelta.max

KEPT_ANSWERS = 16
"""Answers kept per view; different questions beyond that are computed anew."""


@dataclass(frozen=True, slots=True)
class Dirt:
    """What git said of the work tree, and when."""

    dirty: bool
    checked_at: datetime
    checked_monotonic: float


@dataclass(frozen=True, slots=True)
class _Answer:
    made_at: datetime
    until: datetime | None
    body: bytes

    def stands(self, now: datetime) -> bool:
        """Whether the clock is where the answer holds: it can also have been set back."""
        return self.made_at <= now and (self.until is None or now < self.until)


def snapshot_of(
    loaded: Loaded, dirt: Dirt | None, active_run: ActiveRun | None, revision: int, owed: tuple[OwedTask, ...] = ()
) -> Snapshot:
    """What was read, as the value that the core decides over."""
    return Snapshot(
        paths=loaded.config.paths,
        trusted=loaded.config.trusted,
        config=loaded.config.config,
        controls=loaded.config.controls,
        session=loaded.session,
        queue=loaded.queue,
        done=loaded.done,
        lock=loaded.lock,
        active_run=active_run,
        settling=loaded.settles_at_ns is not None,
        dirty=dirt is not None and dirt.dirty,
        dirty_checked_at=None if dirt is None else dirt.checked_at,
        revision=revision,
        owed=owed,
    )


class View:
    """The repository as one caller's configuration shows it. `loaded` and `snapshot` are swapped together, whole."""

    def __init__(self, caller: Caller, next_revision: Callable[[], int]) -> None:
        self.caller = caller
        self.lock = anyio.Lock()
        self.dirt: Dirt | None = None
        self.owed: tuple[OwedTask, ...] = ()
        self._next_revision = next_revision
        self._loaded: Loaded | None = None
        self._telling: tuple[Input, ...] = ()
        self._snapshot: Snapshot | None = None
        self._answers: dict[object, _Answer] = {}

    @property
    def snapshot(self) -> Snapshot:
        """The current snapshot. The view must have been refreshed once."""
        if self._snapshot is None:
            raise RuntimeError("the view was never refreshed")
        return self._snapshot

    @property
    def revision(self) -> int:
        """Of the current snapshot, 0 before there is one."""
        return 0 if self._snapshot is None else self._snapshot.revision

    @property
    def loaded(self) -> Loaded | None:
        return self._loaded

    def is_current(self, wall_ns: Callable[[], int], active_run: ActiveRun | None, lock: Callable[[], QueueLock | None]) -> bool:
        """Whether a look at every input (a microsecond each) shows that nothing changed since it was read.

        `lock` reads the queue lock; it is asked only while the lock is held, since a holder can die without any file changing.
        """
        loaded, snapshot = self._loaded, self._snapshot
        if loaded is None or snapshot is None or loaded.unsettled or snapshot.active_run is not active_run:
            return False
        if loaded.settles_at_ns is not None and not is_settling(loaded.settles_at_ns, wall_ns()):
            return False
        if loaded.lock is not None and loaded.lock != lock():
            return False
        return are_unchanged(self._telling)

    def swap(self, loaded: Loaded, active_run: ActiveRun | None) -> bool:
        """Take what was read; True when an answer could differ from before."""
        before = self._snapshot
        self._loaded = loaded
        self._telling = telling(loaded.inputs)
        if before is not None:
            same = snapshot_of(loaded, self.dirt, active_run, before.revision, self.owed)
            if same == before:
                return False
        self._snapshot = snapshot_of(loaded, self.dirt, active_run, self._next_revision(), self.owed)
        self._answers.clear()
        return True

    def show_run(self, run: ActiveRun | None) -> None:
        """Take what the run engine says, without a look at any file."""
        if self._snapshot is not None and self._snapshot.active_run is not run:
            self._snapshot = replace(self._snapshot, active_run=run, revision=self._next_revision())
            self._answers.clear()

    def show_owed(self, owed: tuple[OwedTask, ...]) -> None:
        """Take what the run engine says of accepted work, without a look at any file."""
        changed, self.owed = self.owed != owed, owed
        if changed and self._snapshot is not None:
            self._snapshot = replace(self._snapshot, owed=owed, revision=self._next_revision())
            self._answers.clear()

    def swap_dirt(self, dirt: Dirt) -> bool:
        """Take what git said; True when the tree changed between clean and dirty."""
        before, self.dirt = self.dirt, dirt
        if self._loaded is not None and self._snapshot is not None:
            changed = before is None or before.dirty != dirt.dirty
            revision = self._next_revision() if changed else self._snapshot.revision
            self._snapshot = snapshot_of(self._loaded, dirt, self._snapshot.active_run, revision, self.owed)
            self._answers.clear()
            return changed
        return False

    def has_answer(self, key: object, now: datetime) -> bool:
        """Whether the answer to `key` is kept and still stands at `now`."""
        kept = self._answers.get(key)
        return kept is not None and kept.stands(now)

    def keep(self, key: object, snapshot: Snapshot, now: datetime, body: bytes, at_most: timedelta = FOR_EVER) -> None:
        """Keep an answer that was made from `snapshot` at `now`, unless the snapshot was swapped meanwhile."""
        if snapshot is not self._snapshot:
            return
        if len(self._answers) >= KEPT_ANSWERS:
            self._answers.clear()
        until = horizon(snapshot, now)
        if at_most is not FOR_EVER:
            until = min(until or now + at_most, now + at_most)
        self._answers[key] = _Answer(now, until, body)

    def answer(self, key: object, now: datetime, make: Callable[[Snapshot], bytes], at_most: timedelta = FOR_EVER) -> bytes:
        """The answer to the question `key`, made once and kept until the snapshot or the clock can change it."""
        kept = self._answers.get(key)
        if kept is not None and kept.stands(now):
            return kept.body
        body = make(self.snapshot)
        self.keep(key, self.snapshot, now, body, at_most)
        return body

"""The watch while a run of our own writes: it looks from time to time, not all the time, and says nothing that the run says itself."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest

from cueloop_daemon.announcer import BREATH, Announcer
from cueloop_daemon.core.model import ActiveRun
from cueloop_daemon.runs.own_writes import OwnWrites
from cueloop_daemon.store.git import Git
from cueloop_daemon.watch.alarm import Alarm
from cueloop_daemon.watch.clock import SystemClock
from cueloop_daemon.workspace.view import View
from cueloop_daemon.workspace.workspace import Workspace
from cueloop_protocol.roots import Caller, Root

LOOKS = 4


class Watched:
    """A watcher that never hints."""

    def set_paths(self, folders: frozenset[str], files: frozenset[str]) -> None:
        """Nothing to do."""


class HubOfOne:
    """Takes what is published; nobody but the daemon's own user listens."""

    audiences: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self.kinds: list[str | None] = []

    def announced(self, key: str) -> bytes | None:
        """Nothing was said before."""
        return None

    async def flush(self) -> None:
        await anyio.lowlevel.checkpoint()

    def publish_all(self, events: list[Any], remembered: object) -> None:
        self.kinds += [event.kind for event in events]


class TimedWorkspace(Workspace):
    """Notes when it was looked at, and tells when it was looked at often enough."""

    looks: list[float]
    enough: anyio.Event

    async def refresh(self, view: View, *, exact: bool = False) -> None:
        self.looks.append(anyio.current_time())
        await super().refresh(view, exact=exact)
        if len(self.looks) >= LOOKS:
            self.enough.set()


def queue_path(folder: Path) -> str:
    return str(folder / ".cueloop" / "queue.jsonc")


def write_queue(folder: Path, title: str) -> None:
    task = {"id": "RQ-0001", "title": title, "status": "todo"}
    (folder / ".cueloop" / "queue.jsonc").write_text(json.dumps({"version": 1, "tasks": [task]}))


@pytest.mark.parametrize("is_own", [True, False])
async def test_looks_are_a_breath_apart_while_a_run_writes(tmp_path: Path, is_own: bool) -> None:
    (tmp_path / ".cueloop").mkdir()
    write_queue(tmp_path, "before")
    clock, hub, writes = SystemClock(), HubOfOne(), OwnWrites()
    caller = Caller(str(tmp_path), None)
    numbers = iter(range(1, 10_000))
    workspace = TimedWorkspace(
        Root(str(tmp_path), str(tmp_path)), caller, clock=clock, next_revision=lambda: next(numbers), git=Git({})
    )
    workspace.looks, workspace.enough = [], anyio.Event()
    alarm = Alarm(clock)
    announcer = Announcer(workspace, hub, clock, alarm, Watched(), writes)  # type: ignore[arg-type]  # all that it asks of a hub
    workspace.changed = announcer.hint
    await announcer.attend(caller)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            await tasks.start(alarm.run, lambda jump: None)
            await tasks.start(announcer.run)
            workspace.show_run(ActiveRun("r", "one", None, None, "running", "2026-01-01T00:00:00Z", None))
            if is_own:
                with writes.one([queue_path(tmp_path)]):
                    write_queue(tmp_path, "ours")
                    workspace.looks.clear()
                    announcer.hint()
                    await workspace.enough.wait()
                    assert hub.kinds == []
            else:
                write_queue(tmp_path, "theirs")
                workspace.looks.clear()
                while not workspace.enough.is_set():
                    announcer.hint()
                    await anyio.lowlevel.checkpoint()
            while writes.finished and announcer._audiences[caller.key].own_writes == 0:
                announcer.hint()
                await anyio.sleep(BREATH)
            tasks.cancel_scope.cancel()
    assert hub.kinds == ([] if is_own else ["queue_snapshot"])
    assert min(later - sooner for sooner, later in pairwise(workspace.looks)) >= BREATH * 0.9


@pytest.mark.parametrize("somebody_wrote", [False, True])
async def test_c09_what_somebody_writes_right_after_a_write_of_the_run_is_announced(tmp_path: Path, somebody_wrote: bool) -> None:
    """However soon after it: no look need come between the two."""
    (tmp_path / ".cueloop").mkdir()
    write_queue(tmp_path, "before")
    clock, hub, writes, numbers = SystemClock(), HubOfOne(), OwnWrites(), iter(range(1, 10_000))
    caller = Caller(str(tmp_path), None)
    workspace = Workspace(
        Root(str(tmp_path), str(tmp_path)), caller, clock=clock, next_revision=lambda: next(numbers), git=Git({})
    )
    announcer = Announcer(workspace, hub, clock, Alarm(clock), Watched(), writes)  # type: ignore[arg-type]  # as above
    await announcer.attend(caller)
    with writes.one([queue_path(tmp_path)]):
        write_queue(tmp_path, "by the run")
    if somebody_wrote:
        write_queue(tmp_path, "by a person")
    for _ in range(3):
        await announcer.look()
    assert hub.kinds == (["queue_snapshot"] if somebody_wrote else [])
    write_queue(tmp_path, "later")
    await announcer.look()
    assert len(hub.kinds) == 1 + somebody_wrote


async def test_what_changed_before_the_watch_was_set_is_announced_without_a_hint(tmp_path: Path) -> None:
    """A predecessor, or a start, has looked; then somebody writes; then the watcher begins, and nothing changes any more."""
    (tmp_path / ".cueloop").mkdir()
    write_queue(tmp_path, "before")
    written = (tmp_path / ".cueloop" / "queue.jsonc").stat().st_ctime_ns
    while time.time_ns() - written < 50_000_000:  # a file that was only just written is looked at again by itself
        await anyio.sleep(0.01)
    clock, hub, numbers = SystemClock(), HubOfOne(), iter(range(1, 10_000))
    caller = Caller(str(tmp_path), None)
    workspace = Workspace(
        Root(str(tmp_path), str(tmp_path)), caller, clock=clock, next_revision=lambda: next(numbers), git=Git({})
    )
    alarm = Alarm(clock)
    announcer = Announcer(workspace, hub, clock, alarm, Watched(), OwnWrites())  # type: ignore[arg-type]  # all that it asks of a hub
    await announcer.attend(caller)
    assert announcer._wait_for == (None, None)
    write_queue(tmp_path, "after")
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            await tasks.start(alarm.run, lambda jump: None)
            await tasks.start(announcer.run)
            while not hub.kinds:
                await anyio.sleep(0.005)
            tasks.cancel_scope.cancel()
    assert hub.kinds == ["queue_snapshot"]

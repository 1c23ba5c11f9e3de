"""The whole daemon inside the test's own process, with a system that the test can break and a clock that it can turn."""

from __future__ import annotations

import gc
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import anyio.to_thread

from cueloop_daemon.app import Daemon
from cueloop_daemon.setting import Setting
from cueloop_daemon.store.ownership import Ownership
from cueloop_daemon.store.system import System
from cueloop_daemon.watch.clock import Clock, SystemClock
from cueloop_protocol.roots import open_root
from support.wire import Wire
from support.world import World


@dataclass(frozen=True)
class Here:
    """A daemon that serves in this process."""

    socket: str
    daemon: Daemon

    async def connected(self, talk: Callable[[Wire], None]) -> None:
        """Let `talk` talk to it from another thread."""

        def connect() -> None:
            with Wire(self.socket) as wire:
                talk(wire)

        await anyio.to_thread.run_sync(connect)


@asynccontextmanager
async def serving(world: World, *, system: System | None = None, clock: Clock | None = None) -> AsyncIterator[Here]:
    """A daemon for the world's repository, which has left when the block is over."""
    root = open_root(str(world.repository.path))
    ownership = Ownership.acquire(root, os.getuid())
    assert isinstance(ownership, Ownership)
    ready, place = anyio.Event(), list[str]()

    def say(**message: object) -> None:
        told = message["ready"]
        assert isinstance(told, dict)
        place.append(told["socket"])
        ready.set()

    numbers = iter(range(1, 1000))
    setting = Setting(
        root=root, uid=os.getuid(), pid=os.getpid(), environ=world.environ, home=str(world.home), instance="here",
        clock=clock or SystemClock(), system=system or System(), new_epoch=lambda: f"{next(numbers):016x}",
    )  # fmt: skip
    daemon = Daemon(setting, ownership, say)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(daemon.run)
            with anyio.fail_after(20):
                await ready.wait()
            try:
                yield Here(place[0], daemon)
            finally:
                daemon.leaving.leave("stopped")
    finally:
        ownership.release()
        gc.unfreeze()  # the daemon takes its process for its own

"""Ending a shim whose run nobody knows of, or that does not answer: with its help if it gives any, without it if not."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from dataclasses import field

import anyio
import anyio.to_thread

from cueloop_daemon.runs.shim.autopsy import ShimRecord, read_record, release_lock
from cueloop_daemon.runs.shim.channel import NoShim, Turned, find_channel
from cueloop_daemon.runs.shim.folder import Folder
from cueloop_daemon.runs.shim.folders import RunFolders
from cueloop_daemon.runs.shim.hearing import LinkClosed, ShimMistake
from cueloop_daemon.runs.shim.holder import judge_with
from cueloop_daemon.runs.shim.link import Peer, ShimLink
from cueloop_daemon.runs.shim.processes import Processes
from cueloop_daemon.runs.shim.spawn import socket_path
from cueloop_daemon.runs.shim.sweep import LOOK, Sweep, Swept, end_leftovers
from cueloop_daemon.runs.types import ShimGone
from cueloop_daemon.store.not_writable import NotWritable
from cueloop_protocol.identity import boot_id, send_signal
from cueloop_protocol.roots import Root
from cueloop_protocol.values import dataclass

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Means:
    """With what a shim is ended. `grace` in seconds; `own_pid` and `uid` are this daemon's."""

    root: Root
    generation: int
    grace: float
    uid: int
    own_pid: int
    processes: Processes


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of a shim that had to go. `is_gone` False: it lives on, holds what it holds, and the rest says nothing."""

    run_id: str
    is_gone: bool
    record: ShimRecord = field(default_factory=ShimRecord)
    swept: Swept = field(default_factory=Swept)
    lock_released: bool = False


async def end_unknown(folders: RunFolders, known: frozenset[str], means: Means) -> tuple[Ended, ...]:
    """End every live shim whose run is not one of `known`, its child and its queue lock with it; each is worth a warning.

    They would hold the queue lock for ever. Several are ended at once.
    """
    ended: list[Ended] = []

    async def end(folder: Folder) -> None:
        try:
            ended.append(await end_shim(folder, means))
        finally:
            folder.close()

    async with anyio.create_task_group() as tasks:
        for name in await anyio.to_thread.run_sync(folders.names):
            folder = None if name in known else await anyio.to_thread.run_sync(_live, folders, name)
            if folder is not None:
                tasks.start_soon(end, folder)
    return tuple(sorted(ended, key=lambda one: one.run_id))


async def end_shim(folder: Folder, means: Means) -> Ended:
    """End the run's shim and everything below it: asked first, then TERM, then KILL; and clear up behind it.

    Afterwards no shim can begin for this run, its secrets are removed, and its queue lock is free, unless `is_gone` is False. Takes
    at most six times the grace and twenty seconds.
    """
    with anyio.move_on_after(3 * means.grace):
        await _ask_to_leave(folder, means)
    await _wait(folder, 0.5)
    for number, patience in ((signal.SIGTERM, 2 * means.grace), (signal.SIGKILL, 5.0)):
        if await anyio.to_thread.run_sync(folder.is_held):
            await anyio.to_thread.run_sync(_signal, folder, number)
            await _wait(folder, patience)
    return await clear_up(folder, means)


async def clear_up(folder: Folder, means: Means) -> Ended:
    """After a shim's death: the tombstone, what it left running, its queue lock, its socket, and the secrets.

    May be repeated. Raises NotWritable, OSError.
    """
    if not await anyio.to_thread.run_sync(folder.bury):
        return Ended(folder.run_id, is_gone=False)
    record = await anyio.to_thread.run_sync(read_record, folder)
    # Numbers of another boot name nobody.
    children = record.survivors if record.boot == boot_id() else ()
    sweep = Sweep(folder.run_id, children, means.uid, means.own_pid, means.processes)
    swept = await end_leftovers(sweep, means.grace)
    released = record.lock is not None and await anyio.to_thread.run_sync(release_lock, means.root, record.lock)
    await anyio.to_thread.run_sync(_remove_socket, folder, means)
    await anyio.to_thread.run_sync(folder.remove_secrets)
    return Ended(folder.run_id, True, record, swept, released)


def _remove_socket(folder: Folder, means: Means) -> None:
    """A shim that was killed could not remove it."""
    path = socket_path(means.root, folder.run_id, means.uid)
    with contextlib.suppress(OSError):
        os.unlink(path)


async def _ask_to_leave(folder: Folder, means: Means) -> None:
    """End its child, let the lock go, and have it leave."""
    try:
        channel = await find_channel(folder, means.generation)
    except (NoShim, Turned, OSError) as exc:
        logger.warning("shim cannot be asked to leave: run=%s why=%s", folder.run_id, exc)
        return
    link = ShimLink(Peer(folder, means.generation, judge_with(lambda: (), lambda _: None)), channel, lambda _: None)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(link.run)
        with contextlib.suppress(ShimGone, LinkClosed, ShimMistake, NotWritable):
            await link.end_child(means.grace)
            await link.unlock(0)
            await link.end()
        tasks.cancel_scope.cancel()


async def _wait(folder: Folder, patience: float) -> None:
    """Until the shim is gone, but no longer than `patience`."""
    with anyio.move_on_after(patience):
        while True:  # no descriptor tells of a lock's end
            if not await anyio.to_thread.run_sync(folder.is_held):
                return
            await anyio.sleep(LOOK)


def _signal(folder: Folder, number: int) -> None:
    """To the very process that said it is the shim, and no other."""
    with contextlib.suppress(OSError):
        place = folder.shim()
        if place is not None:
            send_signal(place.pid, place.start, place.boot, number)


def _live(folders: RunFolders, name: str) -> Folder | None:
    folder: Folder | None = None
    with contextlib.suppress(OSError):
        folder = folders.find(name)
        if folder is not None and folder.is_held():
            return folder
    if folder is not None:
        folder.close()
    return None

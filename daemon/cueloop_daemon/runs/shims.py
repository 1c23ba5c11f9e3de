"""Runs' shims for the engine: `carrier.Carriers` over the package `runs.shim`."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup, TaskStatus

from cueloop_daemon.core.model import ShimProcess
from cueloop_daemon.runs.shim import (
    Ended,
    Folder,
    Gone,
    Hearing,
    Judge,
    Means,
    Processes,
    RunFolders,
    ShimFailed,
    ShimLink,
    ShimSpec,
    ShimUnreachable,
    Trouble,
    end_unknown,
    ensure_shim,
)
from cueloop_daemon.runs.shim_carrier import ShimCarrier, see_off
from cueloop_daemon.runs.types import ShimGone, Stream
from cueloop_daemon.store.not_writable import NotWritable
from cueloop_protocol.roots import Root
from cueloop_protocol.values import dataclass

logger = logging.getLogger(__name__)

GRACE = 5.0


@dataclass(frozen=True, slots=True)
class ShimSetting:
    """What shims are started and ended with. `daemon_argv` and `daemon_env` bring a daemon back; `budget` is output of a run."""

    root: Root
    uid: int
    own_pid: int
    boot_now: str
    executable: str
    daemon_argv: tuple[str, ...]
    daemon_env: Mapping[str, str]
    budget: Callable[[], int]
    judge: Judge
    processes: Processes
    warn: Callable[[str], None]
    grace: float = GRACE

    def means(self, generation: int) -> Means:
        """With what a shim is ended."""
        return Means(self.root, generation, self.grace, self.uid, self.own_pid, self.processes)


class ShimCarriers:
    """See `carrier.Carriers`. `run` must be running: it keeps the connections up."""

    def __init__(self, folders: RunFolders, setting: ShimSetting) -> None:
        self._folders = folders
        self._setting = setting
        self._tasks: TaskGroup | None = None

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Until cancelled; shims live on."""
        async with anyio.create_task_group() as self._tasks:
            task_status.started()
            await anyio.sleep_forever()

    async def prepare(self, run_id: str, env: Mapping[str, str]) -> None:
        await anyio.to_thread.run_sync(self._prepare, run_id, env)

    async def discard(self, run_id: str) -> None:
        try:
            await anyio.to_thread.run_sync(self._folders.retire, run_id)
            await anyio.to_thread.run_sync(self._folders.remove_retired)
        except (NotWritable, OSError) as exc:
            logger.warning("run_folder_not_removed run_id=%s reason=%s", run_id, exc)

    def environment(self, run_id: str) -> Mapping[str, str]:
        with self._opened(run_id) as folder:
            env = folder.caller_env()
        if env is None:
            raise ValueError("the environment of its agents is not there any more.")
        return env

    async def carry(self, run_id: str, boot_id: str, generation: int) -> ShimCarrier:
        setting = self._setting
        assert self._tasks is not None  # `run` is running
        folder = await anyio.to_thread.run_sync(self._folders.find, run_id)
        if folder is None:
            raise ShimGone
        spec = ShimSpec(
            root=setting.root,
            boot=boot_id,
            boot_now=setting.boot_now,
            generation=generation,
            executable=setting.executable,
            daemon_argv=setting.daemon_argv,
            daemon_env=setting.daemon_env,
            judge=setting.judge,
            hear=lambda heard: self._heard(run_id, heard),
            budget=setting.budget(),
            grace=setting.grace,
        )
        try:
            link = await self._reached(self._tasks, folder, spec)
            place = await anyio.to_thread.run_sync(folder.shim)
            if isinstance(link, Gone) or place is None:
                raise ShimGone
        except BaseException:
            folder.close()
            raise
        return ShimCarrier(link, folder, ShimProcess(place.pid, place.start, place.boot), setting.means(generation))

    async def bury(self, run_id: str, generation: int) -> tuple[str, ...]:
        try:
            folder = await anyio.to_thread.run_sync(self._folders.find, run_id)
        except OSError as exc:
            return (f"The folder of run {run_id} cannot be used: {exc.strerror}.",)
        if folder is None:
            return ()
        try:
            ended = await see_off(folder, self._setting.means(generation))
            return () if ended is None else _sentences(ended)
        finally:
            folder.close()

    async def unknown(self, known: frozenset[str], generation: int) -> tuple[str, ...]:
        try:
            ended = await end_unknown(self._folders, known, self._setting.means(generation))
        except Exception as exc:
            logger.error("unknown_shims_not_ended", exc_info=exc)
            return ()
        said: list[str] = []
        for one in ended:
            what = "was ended" if one.is_gone else "could not be ended"
            said += [f"A process of run {one.run_id}, of which nothing is on record, {what}.", *_sentences(one)]
        return tuple(said)

    def output(self, run_id: str, number: int, stream: Stream, offset: int, limit: int) -> tuple[int, bytes]:
        with self._opened(run_id) as folder:
            return folder.read(number, stream, offset, limit)

    def sizes(self, run_id: str, number: int) -> tuple[int, int]:
        try:
            with self._opened(run_id) as folder:
                return folder.sizes(number)
        except OSError:
            return 0, 0

    def _prepare(self, run_id: str, env: Mapping[str, str]) -> None:
        with contextlib.closing(self._folders.make(run_id)) as folder:
            try:
                folder.write_caller_env(env)
            except NotWritable:
                with contextlib.suppress(NotWritable):
                    self._folders.retire(run_id)
                    self._folders.remove_retired()
                raise

    def _opened(self, run_id: str) -> contextlib.closing[Folder]:
        folder = self._folders.find(run_id)
        if folder is None:
            raise FileNotFoundError(f"run {run_id} has no folder")
        return contextlib.closing(folder)

    async def _reached(self, tasks: TaskGroup, folder: Folder, spec: ShimSpec) -> ShimLink | Gone:
        """A shim that lives is waited for: its agent works on, and only a person can say that it should not."""
        told = False
        while True:
            try:
                return await ensure_shim(tasks, folder, spec)
            except ShimFailed as exc:
                raise NotWritable(str(exc), "Look at shim.log in the run's folder.", path=folder.path) from exc
            except ShimUnreachable as exc:
                if not told:
                    self._setting.warn(f"The process that carries run {folder.run_id} does not answer ({exc}); it is waited for.")
                told = True

    def _heard(self, run_id: str, heard: Hearing) -> None:
        logger.warning("shim_says run_id=%s what=%r", run_id, heard)
        if isinstance(heard, Trouble):
            self._setting.warn(f"Run {run_id}: {heard.what} does not work (error {heard.errno}); it goes on without.")


def _sentences(ended: Ended) -> tuple[str, ...]:
    said: list[str] = []
    if not ended.is_gone:
        said.append(f"The process that carries run {ended.run_id} could not be ended.")
    if ended.swept.ended:
        said.append(f"What run {ended.run_id} had left running was ended: {', '.join(ended.swept.ended)}.")
    if ended.swept.left:
        said.append(f"Run {ended.run_id} left processes that could not be ended: {', '.join(ended.swept.left)}.")
    if ended.swept.suspects:
        said.append(f"These may be left of run {ended.run_id} and were not touched: {', '.join(ended.swept.suspects)}.")
    return tuple(said)

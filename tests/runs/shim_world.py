"""A repository with a run in it, and a shim of either kind: the real one in its own process, or the fake one in ours."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import anyio

from cueloop_daemon.runs.shim import (
    Folder,
    Gone,
    Hearing,
    Means,
    RunFolders,
    ShimLink,
    ShimSpec,
    ensure_shim,
    judge_with,
    read_record,
    system_processes,
)
from cueloop_daemon.runs.shim.spawn import socket_path
from cueloop_daemon.runs.types import Exited, Grown, Order
from cueloop_protocol.identity import boot_id, send_signal
from cueloop_protocol.place import ensure_private_folder, local_folder
from cueloop_protocol.roots import Root
from runs.fake_shim import FakeShim

Kind = Literal["fake", "real"]
RUN = "6f1c1f7e-0c0e-4b1e-9a5e-3a3f1e0a7c55"
PATIENCE = 20.0
"""Seconds before a test that hangs fails."""
PYTHON = sys.executable


@dataclass
class ShimWorld:
    """`kind` decides what `link` finds. All that was started is ended by `close`."""

    home: Path
    kind: Kind = "real"
    run_id: str = RUN
    fake: FakeShim | None = None
    heard: list[Hearing] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.root = Root(str(self.home), str(self.home))
        (self.home / ".cueloop" / "cache" / "cueloopd").mkdir(parents=True, exist_ok=True)
        self.uid = os.getuid()
        ensure_private_folder(local_folder(self.uid), self.uid)
        self.folders = RunFolders(self.root, self.uid)
        self.folder: Folder = self.folders.make(self.run_id)

    @property
    def socket(self) -> str:
        return socket_path(self.root, self.run_id, self.uid)

    @property
    def lock(self) -> Path:
        return self.home / ".cueloop" / "lock"

    @property
    def means(self) -> Means:
        return Means(self.root, 9, 0.4, self.uid, os.getpid(), system_processes())

    def spec(self, generation: int = 1, boot: str | None = None) -> ShimSpec:
        return ShimSpec(
            root=self.root,
            boot=boot_id() if boot is None else boot,
            boot_now=boot_id(),
            generation=generation,
            executable=PYTHON,
            daemon_argv=(),
            daemon_env={},
            judge=judge_with(lambda: (os.getpid(),), self.folders.is_alive),
            hear=self.heard.append,
        )

    @contextlib.asynccontextmanager
    async def link(self, generation: int = 1) -> AsyncIterator[ShimLink]:
        """A link to the run's shim, which is started if there is none."""
        if self.kind == "fake" and self.fake is None:
            self.fake = FakeShim(self.folder, str(self.home), self.socket)
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                link = await ensure_shim(tasks, self.folder, self.spec(generation))
                assert isinstance(link, ShimLink), link
                yield link
                tasks.cancel_scope.cancel()

    async def ensure(self, **changes: str) -> ShimLink | Gone:
        """What there is of a shim; the link is not kept up."""
        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:
            try:
                return await ensure_shim(tasks, self.folder, self.spec(**changes))  # type: ignore[arg-type]  # texts only
            except Exception as exc:
                failure = exc  # raised below, since the group would wrap it
            finally:
                tasks.cancel_scope.cancel()
        raise failure or AssertionError

    def order(self, number: int, script: str, *, stdin: str | None = None, grace: float = 1.0, **env: str) -> Order:
        """A shell script as a child."""
        variables = {"PATH": "/usr/bin:/bin", **env}
        return Order(number, f"token-{number}", "agent", ("/bin/sh", "-c", script), variables, stdin, None, None, grace)

    def kill_shim(self) -> None:
        """`kill -9`."""
        if self.fake is not None:
            self.fake.die()
        else:
            self._signal(signal.SIGKILL)

    def pause_shim(self) -> None:
        assert self.kind == "real"
        self._signal(signal.SIGSTOP)

    def term_shim(self) -> None:
        """SIGTERM, which is a cancel."""
        if self.fake is not None:
            self.fake.term()
        else:
            self._signal(signal.SIGTERM)

    def close(self) -> None:
        if self.folder.is_held():
            self.kill_shim()
        if self.fake is not None and self.fake.child is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.fake.child.process.pid, signal.SIGKILL)
            self.fake.child.process.wait()
        for born in read_record(self.folder).survivors:
            with contextlib.suppress(OSError):
                send_signal(born.pid, born.start, boot_id(), signal.SIGKILL)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.socket)
        self.folder.close()

    def _signal(self, number: int) -> None:
        place = self.folder.shim()
        assert place is not None
        send_signal(place.pid, place.start, place.boot, number)


@contextlib.contextmanager
def shim_world(home: Path, kind: Kind = "real", run_id: str = RUN) -> Iterator[ShimWorld]:
    world = ShimWorld(home, kind, run_id)
    try:
        yield world
    finally:
        world.close()


async def see_through(link: ShimLink, number: int) -> tuple[list[Grown], Exited]:
    """All of a child's news until its end."""
    grown: list[Grown] = []
    async for news in link.follow(number):
        if isinstance(news, Exited):
            return grown, news
        grown.append(news)
    raise AssertionError("the news ended without an end")


def read_all(folder: Folder, number: int, stream: Literal["out", "err"] = "out") -> bytes:
    """The whole of a stream."""
    data, offset = b"", 0
    while True:
        begin, piece = folder.read(number, stream, offset, 1000)
        if not piece:
            return data
        data += piece
        offset = begin + len(piece)

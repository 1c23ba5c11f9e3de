"""What is told of the active run: in snapshots at once, and in `active.json` for those who ask without a daemon."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import anyio
import anyio.to_thread

from cueloop_daemon.core.model import ActiveRun
from cueloop_daemon.runs.active import View, shown_as

logger = logging.getLogger(__name__)

Show = Callable[[ActiveRun | None], None]


class Face:
    """One per daemon. `show` puts the run into snapshots, `write` into the file (None: remove it; blocking, may raise OSError)."""

    def __init__(self, show: Show, write: Show) -> None:
        self._show = show
        self._write = write
        self._run: ActiveRun | None = None
        self._cancelling = False
        self._stopping = False
        self._written: ActiveRun | None = None
        self._changed = anyio.Event()
        self._lane = anyio.Lock()

    @property
    def run(self) -> ActiveRun | None:
        """The active run as it is told; None if there is none."""
        if self._run is None:
            return None
        return shown_as(self._run, cancelling=self._cancelling, stopping=self._stopping)

    def begin(self, run: ActiveRun, *, cancelling: bool = False, stopping: bool = False) -> None:
        """This run is active now."""
        self._run, self._cancelling, self._stopping = run, cancelling, stopping
        self._tell()

    def change(self, **fields: Any) -> None:
        """Other fields of the active run, if there is one."""
        if self._run is not None:
            self._run = replace(self._run, **fields)
            self._tell()

    def wish(self, *, cancelling: bool = False, stopping: bool = False) -> None:
        """What a person asked of it."""
        self._cancelling |= cancelling
        self._stopping |= stopping
        self._tell()

    def end(self) -> None:
        """No run is active."""
        self._run = None
        self._tell()

    @property
    def is_adopting(self) -> bool:
        """Whether the run was begun by another daemon, and is not gone on with yet."""
        return self._run is not None and self._run.state == "adopting"

    def view(self) -> bytes:
        """What a next life needs to know of the active run."""
        return View().to_json() if self._run is None else self.view_of(self._run)

    @staticmethod
    def view_of(run: ActiveRun) -> bytes:
        """What a next life needs to know of a run."""
        return View(state=run.state, task_id=run.task_id, phase=run.phase, decision=run.decision).to_json()

    async def written(self) -> None:
        """Return when the file says what is true now, or cannot be made to."""
        async with self._lane:
            run = self.run
            if run == self._written:
                return
            try:
                await anyio.to_thread.run_sync(self._write, run)
                self._written = run
            except OSError as exc:
                logger.warning("active_not_written reason=%s", exc)

    async def keep_written(self) -> None:
        """Write the file after each change, until cancelled. What changes while it is written is written once."""
        while True:
            await self.written()
            await self._changed.wait()
            self._changed = anyio.Event()

    def _tell(self) -> None:
        self._show(self.run)
        self._changed.set()

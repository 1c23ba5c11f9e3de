"""What the engine needs of the part that starts, finds and ends shims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from cueloop_daemon.core.model import ShimProcess
from cueloop_daemon.runs.types import Link, RunFolder, Stream


class Carrier(Protocol):
    """The shim of one run, connected. `Link`'s calls raise ShimGone once it is no more."""

    @property
    def link(self) -> Link: ...
    @property
    def folder(self) -> RunFolder: ...
    @property
    def shim(self) -> ShimProcess: ...

    async def quiet(self) -> None:
        """Return when no child runs. Raises ShimGone."""
        ...

    async def lost(self) -> None:
        """Return when the shim is no more."""
        ...

    async def dismissed(self) -> None:
        """Return when the shim was told to end its run, by a TERM of the system or of a person: that is a cancel."""
        ...

    async def abort(self) -> None:
        """The run cannot be carried on: child and lock go, then the shim. Has an end. Never raises."""
        ...

    async def end(self) -> None:
        """The run is over: the shim leaves, a late one will, and what is secret in the folder is removed. Never raises."""
        ...


class Carriers(Protocol):
    """All runs' folders and shims."""

    async def prepare(self, run_id: str, env: Mapping[str, str]) -> None:
        """Make the run's folder with the environment of its agents, 0600. Raises NotWritable, and then nothing is left."""
        ...

    async def discard(self, run_id: str) -> None:
        """Take a folder out of sight, and remove it. Never raises."""
        ...

    def environment(self, run_id: str) -> Mapping[str, str]:
        """The environment of the agents. Blocking. Raises OSError, ValueError."""
        ...

    async def carry(self, run_id: str, boot_id: str, generation: int) -> Carrier:
        """Start the shim, or find it; whoever is there already is the run's shim. `boot_id`: of the machine when the run began.

        Waits for one that lives and does not answer. Raises ShimGone where it was up and is no more, NotWritable where it cannot be
        started, LinkClosed where a later daemon has it.
        """
        ...

    async def bury(self, run_id: str, generation: int) -> tuple[str, ...]:
        """No shim will ever carry this run again: one that lives is ended, what it left running too, its queue lock let go, and
        secrets are removed.

        Returns sentences for people about what could not be ended. Never raises.
        """
        ...

    async def unknown(self, known: frozenset[str], generation: int) -> tuple[str, ...]:
        """End every shim that carries a run which is not `known`, and what runs under it; sentences for people. Never raises."""
        ...

    def output(self, run_id: str, number: int, stream: Stream, offset: int, limit: int) -> tuple[int, bytes]:
        """A piece of a run's output, as `RunFolder.read`; also of a run that is over. Blocking. Raises OSError."""
        ...

    def sizes(self, run_id: str, number: int) -> tuple[int, int]:
        """The logical sizes of a child's two streams so far. Blocking. Zero for what is not there."""
        ...

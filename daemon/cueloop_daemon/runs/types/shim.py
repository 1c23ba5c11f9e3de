"""The shim of a run as the program sees it: orders, what becomes of them, and the run's folder."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Literal, Protocol

from cueloop_protocol.values import dataclass

if TYPE_CHECKING:  # every runner comes with it, and only a run needs one
    pass

Stream = Literal["out", "err"]
"""A child's standard output or standard error."""

Cause = Literal["self", "idle", "wall", "signal", "cancel", "leave", "folder"]
"""Why a child ended: by itself, a limit, a signal order, a cancel, 30 s after its last word, or because its run's folder went."""


class ShimGone(Exception):
    """The run's shim is no more; the run cannot go on."""


@dataclass(frozen=True, slots=True)
class LockMade:
    """The queue lock is ours; `owner` are the bytes of its owner file."""

    device: int
    inode: int
    owner: bytes


@dataclass(frozen=True, slots=True)
class LockHeld:
    """Somebody else has the queue lock. What the owner file says; None where it says nothing."""

    pid: int | None
    label: str | None
    started_at: str | None
    live: bool


@dataclass(frozen=True, slots=True)
class Order:
    """One child to start. `argv[0]` is absolute. `stdin` is a file for the child to read, None is /dev/null. Seconds; None: no limit."""

    number: int
    token: str
    kind: Literal["agent", "ci", "git"]
    argv: tuple[str, ...]
    env: Mapping[str, str]
    stdin: str | None
    idle: float | None
    wall: float | None
    grace: float


@dataclass(frozen=True, slots=True)
class Started:
    """The child runs."""

    pid: int
    start_time: str


@dataclass(frozen=True, slots=True)
class NotStarted:
    """The child could not be started; `stage` is cwd, open or exec."""

    stage: str
    errno: int


@dataclass(frozen=True, slots=True)
class Grown:
    """There is more output: logical sizes in bytes."""

    out: int
    err: int


@dataclass(frozen=True, slots=True)
class Exited:
    """The child and its group are gone; output is complete. `left`: names of what could not be ended."""

    code: int | None
    signal: int | None
    cause: Cause
    out: int
    err: int
    dropped: int
    left: tuple[str, ...] = ()


class Link(Protocol):
    """The daemon's end of the connection to the run's shim. Every call may raise ShimGone."""

    async def lock(self, number: int, label: str, command: str, started_at: str) -> LockMade | LockHeld:
        """Take the queue lock, clearing one whose holder is dead. Having it already is LockMade."""
        ...

    async def unlock(self, number: int) -> None:
        """Let the queue lock go, if it is ours."""
        ...

    async def start(self, order: Order) -> Started | NotStarted:
        """Start a child. The same number again tells what became of it, and never starts a second one."""
        ...

    def follow(self, number: int) -> AsyncIterator[Grown | Exited]:
        """How the output grows and how the child ends; begins with the state that there is. Ends after Exited."""
        ...

    async def signal(self, number: int, grace: float) -> None:
        """INT, TERM, KILL to the whole group; returns when it is empty. One that was not started yet never will be."""
        ...

    async def end_child(self, grace: float) -> None:
        """End whatever child there is, like `signal`; returns when there is none."""
        ...

    async def limits(self, number: int, *, leave_within: float) -> None:
        """The child has said its last word: it must be gone within these seconds."""
        ...

    async def acknowledge(self, number: int) -> None:
        """What became of the orders up to this one is on record here."""
        ...


class RunFolder(Protocol):
    """`runs/<id>/`: what is read and written there by the daemon."""

    def write_prompt(self, number: int, text: str) -> str:
        """Keep a prompt as a file, 0600; its path for a child's standard input. One that exists stays as it is."""
        ...

    def write_stdin(self, number: int, data: bytes) -> str:
        """Keep what the child reads on its standard input, 0600; its path. One that exists stays as it is."""
        ...

    def read(self, number: int, stream: Stream, offset: int, limit: int) -> tuple[int, bytes]:
        """Output from `offset` on: (where it really begins, bytes). A middle that was dropped is jumped over. Blocking."""
        ...

"""The daemon's end of the connection to a run's shim: it survives broken connections, and ends when the shim does.

Every wish can be repeated, so after a break the new connection is told again what was not answered. The shim lives as long as the
lock of the run's folder is held, whatever the connection does: only a free lock means that it is gone.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable

import anyio
import anyio.to_thread

from cueloop_daemon.runs.shim import holder, news
from cueloop_daemon.runs.shim.channel import Channel
from cueloop_daemon.runs.shim.conversation import Conversation
from cueloop_daemon.runs.shim.folder import Folder
from cueloop_daemon.runs.shim.following import Following
from cueloop_daemon.runs.shim.hearing import Hearing, ShimCancelled, ShimMistake
from cueloop_daemon.runs.types import Exited, Grown, LockHeld, LockMade, NotStarted, Order, ShimGone, Started
from cueloop_daemon.shim.spec import OrderSpec
from cueloop_daemon.shim.wire import WireError, owner_bytes, owner_text
from cueloop_daemon.store.not_writable import NotWritable, not_writable
from cueloop_protocol.roots import shown
from cueloop_protocol.values import dataclass

ATTEMPTS = 3
"""How often a dead holder's lock is cleared before whoever is quicker has it."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Whose link this is: the run's folder, the daemon's generation, and what judges who holds a queue lock."""

    folder: Folder
    generation: int
    judge: holder.Judge


class ShimLink:
    """`runs.types.Link`, and what only the engine needs. `run` must be running for anything to come back.

    `lost` is set when the shim is gone: calls raise ShimGone. When a later daemon has it, calls raise Fenced, and when
    `run` was cancelled LinkClosed: then the run is not to be settled. `cancelled` is set when somebody sent the shim a SIGTERM.
    What is under way when `run` is cancelled is cut off, so it should be the last of the run's tasks to be cancelled.
    """

    def __init__(self, peer: Peer, channel: Channel, hear: Callable[[Hearing], None]) -> None:
        self._folder = peer.folder
        self._judge = peer.judge
        self._talk = Conversation(peer.folder, peer.generation, channel, hear)

    @property
    def lost(self) -> anyio.Event:
        """Set when the shim is gone."""
        return self._talk.lost

    @property
    def is_silent(self) -> bool:
        """Whether the shim has not answered for a while, although it lives; `orphans.end_shim` ends one without its help."""
        return self._talk.is_silent

    @property
    def cancelled(self) -> anyio.Event:
        """Set when the shim was told to cancel the run."""
        return self._talk.cancelled

    async def run(self) -> None:
        """Keep the conversation up; returns at the link's end."""
        await self._talk.run()

    async def status(self) -> news.State:
        """How things stand at the shim."""
        answer = await self._talk.ask("status", None)
        if not isinstance(answer, news.State):
            raise _mistake("status", answer)
        return answer

    async def lock(self, number: int, label: str, command: str, started_at: str) -> LockMade | LockHeld:
        """See `runs.types.Link`. Raises NotWritable where the lock's folder cannot be made, and ShimCancelled."""
        wish: dict[str, object] = {"label": label, "command": command, "started_at": started_at}
        clear: dict[str, object] | None = None
        attempts = 0
        while True:
            attempts += 1
            answer = await self._talk.ask("lock", number, **wish, clear=clear)
            match answer:
                case news.Made(dev=device, ino=inode, owner=owner):
                    return LockMade(device, inode, _bytes(owner))
                case news.Held(dev=device, ino=inode, owner=text):
                    owner_file = None if text is None else _bytes(text)
                    held = await anyio.to_thread.run_sync(self._judge, owner_file, answer.names)
                    if held.live or owner_file is None or attempts == ATTEMPTS:
                        return held
                    clear = {"dev": device, "ino": inode, "owner": owner_text(owner_file)}
                case news.Failure() if self.cancelled.is_set():
                    raise ShimCancelled
                case news.Failure(errno=why):
                    raise _lock_failed("make", why)
                case _:
                    raise _mistake("lock", answer)

    async def unlock(self, number: int) -> None:
        """See `runs.types.Link`. Raises NotWritable where the lock cannot be removed."""
        match await self._talk.ask("unlock", number):
            case news.Failure(errno=errno):
                raise _lock_failed("remove", errno)
            case news.Plain(word="unlocked" | "absent" | "foreign"):
                return
            case other:
                raise _mistake("unlock", other)

    async def start(self, order: Order) -> Started | NotStarted:
        """See `runs.types.Link`. `barred` is the stage of one that was ended before it was started. Raises NotWritable."""
        await anyio.to_thread.run_sync(self._folder.write_order, order.number, self._spec(order))
        watched = self._talk.watch(order.number)
        watched.token = order.token
        match await self._talk.ask("start", order.number, token=order.token):
            case news.Running(pid=pid, start=start) | news.End(pid=pid, start=start):
                return Started(pid, start)
            case news.NoStart(stage=stage, errno=errno):
                return NotStarted(stage, errno)
            case news.Plain(word="barred"):
                return NotStarted("barred", 0)
            case other:
                raise _mistake("start", other)

    def follow(self, number: int) -> AsyncIterator[Grown | Exited]:
        """See `runs.types.Link`. For a child that this link has started, now or again."""
        return Following(self._talk.watch(number), self._talk.why_lost)

    async def signal(self, number: int, grace: float) -> None:
        """See `runs.types.Link`."""
        match await self._talk.ask("signal", number, grace=grace):
            case news.Plain(word="gone" | "barred" | "forgotten"):
                return
            case other:
                raise _mistake("signal", other)

    async def end_child(self, grace: float) -> None:
        """See `runs.types.Link`."""
        while (child := (await self.status()).child) is not None:
            await self.signal(child.n, grace)

    async def limits(self, number: int, *, leave_within: float) -> None:
        """See `runs.types.Link`."""
        await self._talk.ask("limits", number, leave_within=leave_within)

    async def acknowledge(self, number: int) -> None:
        """See `runs.types.Link`."""
        await self._talk.ask("ack", None, upto=number)
        self._talk.forget(number)

    async def end(self) -> bool:
        """Tell the shim to leave, and return when it has; False if it cannot, because a child or the lock is still there."""
        try:
            answer = await self._talk.ask("end", None)
        except ShimGone:
            return True
        if isinstance(answer, news.Plain) and answer.word == "busy":
            return False
        await self.lost.wait()
        return True

    def _spec(self, order: Order) -> OrderSpec:
        """The order as a file; standard input in the run's own folder goes by name, since its path may be too long to open."""
        stdin = order.stdin
        if stdin is not None and os.path.dirname(stdin) == self._folder.path:
            stdin = os.path.basename(stdin)
        return OrderSpec(order.token, order.kind, order.argv, dict(order.env), stdin, order.idle, order.wall, order.grace)


def _lock_failed(action: str, number: int) -> NotWritable:
    return not_writable(OSError(number, os.strerror(number)), ".cueloop/lock", action)


def _bytes(owner: str) -> bytes:
    try:
        return owner_bytes(owner)
    except WireError as exc:
        raise ShimMistake(str(exc)) from exc


def _mistake(word: str, answer: news.Message) -> ShimMistake:
    told = answer.word if isinstance(answer, news.Plain) else type(answer).__name__.lower()
    return ShimMistake(f"{word}: the shim answered {shown(told)}")

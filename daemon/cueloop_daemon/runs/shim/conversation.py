"""Wishes and answers over connections that may break, with one shim that may die."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio
import anyio.to_thread

from cueloop_daemon.runs.shim import news
from cueloop_daemon.runs.shim.channel import Channel, NoShim, Turned, find_channel
from cueloop_daemon.runs.shim.folder import Folder
from cueloop_daemon.runs.shim.following import Watched
from cueloop_daemon.runs.shim.hearing import Fenced, Hearing, LinkClosed, ShimMistake, Silence, Superseded, Trouble
from cueloop_daemon.runs.types import Exited, ShimGone
from cueloop_daemon.shim.wire import WireError, encode

logger = logging.getLogger(__name__)

QUIET = 5.0
"""Seconds of silence after which the shim is asked how it is; asked twice, and nothing heard after as many again, it is silent."""
PATIENCE = 10.0
"""Seconds without a connection after which it is silent."""
FIRST_PAUSE = 0.02
LONGEST_PAUSE = 0.5
_BROKEN = (OSError, WireError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)


@dataclass(slots=True)
class _Wish:
    line: bytes
    answer: news.Message | None = None
    done: anyio.Event = field(default_factory=anyio.Event)


class Conversation:
    """All that is under way with one shim. `hear` gets what nobody asked for; it must not raise and not block."""

    def __init__(self, folder: Folder, generation: int, channel: Channel, hear: Callable[[Hearing], None]) -> None:
        self.lost = anyio.Event()
        """Set when the shim is gone; not when it merely is not ours any more."""
        self.cancelled = anyio.Event()
        self.is_silent = False
        self._folder = folder
        self._generation = generation
        self._channel: Channel | None = channel
        self._hear = hear
        self._why: type[Exception] | None = None
        self._turned: Turned | None = None
        self._wishes: dict[tuple[str, int | None], _Wish] = {}
        self._watched: dict[int, Watched] = {}
        self._unsent: list[bytes] = []
        self._something = anyio.Event()
        self._unheard = 0
        """How many QUIETs have passed since something was heard. Counted, not measured: a daemon that was stopped heard nothing."""

    def why_lost(self) -> Exception | None:
        """What a call raises from now on; None while there is a shim."""
        return None if self._why is None else self._why()

    def watch(self, number: int) -> Watched:
        """What is known of a child."""
        return self._watched.setdefault(number, Watched())

    def forget(self, number: int) -> None:
        """Nothing up to this number is of interest any more."""
        self._watched = {n: one for n, one in self._watched.items() if n > number or one.is_open}

    async def ask(self, word: str, number: int | None, **fields: object) -> news.Message:
        """Say a wish, and its answer, however many connections that takes. Who asks the same meanwhile gets the same answer.

        Raises ShimGone, LinkClosed.
        """
        if self._why is not None:
            raise self._why
        given = fields if number is None else {"n": number, **fields}
        line = encode(word, **{name: value for name, value in given.items() if value is not None})
        wish = self._wishes.get((word, number))
        if wish is None or wish.line != line:
            self._send(line)
        if wish is None:
            wish = self._wishes[word, number] = _Wish(line)
        wish.line = line
        await wish.done.wait()
        if wish.answer is None:
            raise self._why or LinkClosed
        return wish.answer

    async def run(self) -> None:
        """Converse until the shim is gone or somebody else's; then wake everybody and return."""
        channel = self._channel
        try:
            while channel is not None:
                self._begin(channel)
                await self._converse(channel)
                channel = await self._connect()
            self._end(LinkClosed if self._folder.is_closed else ShimGone)
        except Turned as exc:
            logger.warning("shim refuses us: run=%s why=%s", self._folder.run_id, exc.why)
            self._end(Fenced)
            self._hear(Superseded())
        finally:
            self._end(LinkClosed)

    def _begin(self, channel: Channel) -> None:
        """On a new connection: how things stand, and everything again that was not answered."""
        self._channel = channel
        self._unsent = [wish.line for wish in self._wishes.values()]
        asked = {number for word, number in self._wishes if word == "start"}
        for number, watched in self._watched.items():
            if watched.token is not None and watched.is_open and number not in asked:
                self._unsent.append(encode("start", n=number, token=watched.token))
        self._take_state(channel.state)
        self._hear_again()
        self._something.set()

    async def _converse(self, channel: Channel) -> None:
        """Until the connection breaks. Raises Turned."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._write, channel)
                tasks.start_soon(self._look_after)
                await self._listen(channel)
                tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await channel.close()
        if self._turned is not None:
            raise self._turned

    async def _listen(self, channel: Channel) -> None:
        try:
            while self._turned is None:
                message = await channel.receive()
                self._hear_again()
                self._take(message)
        except _BROKEN as exc:
            logger.info("connection to shim broke: run=%s error=%s", self._folder.run_id, str(exc) or type(exc).__name__)

    async def _write(self, channel: Channel) -> None:
        """Until the connection breaks, which who listens hears too."""
        with contextlib.suppress(*_BROKEN):
            while True:
                await self._something.wait()
                self._something = anyio.Event()
                lines, self._unsent = self._unsent, []
                for line in lines:
                    await channel.send(line)

    async def _look_after(self) -> None:
        while True:
            await anyio.sleep(QUIET)
            self._unheard += 1
            if self._unheard > 2:
                self._fall_silent()
            else:
                self._send(encode("status"))

    async def _connect(self) -> Channel | None:
        """A new connection; None when the shim is gone, or nobody wants to know. Raises Turned."""
        pause, since = FIRST_PAUSE, anyio.current_time()
        while True:
            try:
                if self._folder.is_closed or not await anyio.to_thread.run_sync(self._folder.is_held):
                    return None
                return await find_channel(self._folder, self._generation)
            except (NoShim, OSError) as exc:
                logger.debug("no connection to shim: run=%s why=%s", self._folder.run_id, exc)
            if anyio.current_time() - since >= PATIENCE:
                self._fall_silent()
            await anyio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _send(self, line: bytes) -> None:
        self._unsent.append(line)
        self._something.set()

    def _take(self, message: news.Message) -> None:
        if isinstance(message, news.Refused):
            self._turned = Turned(message.why)
        elif isinstance(message, news.Bad):
            self._hear(Trouble(message.what, message.errno))
        elif isinstance(message, news.State):
            self._take_state(message)
        elif isinstance(message, news.Plain) and message.to is None and message.word == "cancelled":
            self.cancelled.set()
        elif message.n is not None and message.to in (None, "start"):
            self._take_child(message.n, message)
        if message.to is not None:
            wish = self._wishes.pop((message.to, message.n), None) or self._wishes.pop((message.to, None), None)
            if wish is not None:
                wish.answer = message
                wish.done.set()

    def _take_state(self, state: news.State) -> None:
        if state.cancelled:
            self.cancelled.set()
        if state.child is not None:
            self.watch(state.child.n).grow(state.child.out, state.child.err)

    def _take_child(self, number: int, message: news.Message) -> None:
        watched = self.watch(number)
        match message:
            case news.Growth(out=out, err=err):
                watched.grow(out, err)
            case news.End() as end:
                watched.end(Exited(end.code, end.signal, end.cause, end.out, end.err, end.dropped, end.left))
            case news.NoStart() | news.Plain():
                watched.fail(ShimMistake(f"child {number} is not to be followed: {message!r}"))

    def _hear_again(self) -> None:
        self._unheard = 0
        if self.is_silent:
            self.is_silent = False
            self._hear(Silence(begins=False))

    def _fall_silent(self) -> None:
        if not self.is_silent:
            self.is_silent = True
            self._hear(Silence(begins=True))

    def _end(self, why: type[Exception]) -> None:
        if self._why is not None:
            return
        self._why = why
        for wish in self._wishes.values():
            wish.done.set()
        for watched in self._watched.values():
            watched.tell()
        if why is ShimGone:
            self.lost.set()

"""The orders of a run: each number is obeyed once, and asked again it tells what became of it. Standard library only."""

from __future__ import annotations

import errno
import os

from cueloop_daemon.shim.child import Gated, StartFailed
from cueloop_daemon.shim.entry import Entry
from cueloop_daemon.shim.invocation import Invocation
from cueloop_daemon.shim.launch import launch, read_order
from cueloop_daemon.shim.locking import Locking
from cueloop_daemon.shim.loop import READ
from cueloop_daemon.shim.output import Stream
from cueloop_daemon.shim.wire import (
    PROTOCOL,
    Ack,
    End,
    Limits,
    Lock,
    Signal,
    Start,
    Status,
    Unlock,
    Wish,
    encode,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from cueloop_daemon.shim.launch import Place
    from cueloop_daemon.shim.loop import Clock, Loop
    from cueloop_daemon.shim.output import Budget
    from cueloop_daemon.shim.record import Record
    from cueloop_daemon.shim.spec import OrderSpec

MOST_KEPT = 1000
"""Orders that are not acknowledged; further starts are refused, so that a state always fits a line."""


class Orders:
    """All that a daemon can have done. `push(message)` tells it something; `reply(word, n, message)` answers what it waits for."""

    def __init__(
        self,
        place: Place,
        up: bytes,
        record: Record,
        budget: Budget,
        loop: Loop,
        clock: Clock,
        push: Callable[[bytes], None],
        reply: Callable[[str, int, bytes], None],
    ) -> None:
        self.child: Invocation | None = None
        self.locking = Locking(place, record)
        self.is_cancelled = False
        self.is_over = False
        self.is_stirred = False
        """Whether something has happened that `advance` should look at without delay."""
        self._place, self._record, self._budget, self._loop, self._clock = place, record, budget, loop, clock
        self._push, self._reply = push, reply
        self._entries: dict[int, Entry] = {}
        self._acknowledged = -1
        self._up = up
        self._troubles: set[tuple[str, int]] = set()

    def obey(self, wish: Wish) -> bytes | None:
        """The answer; None if it comes later, by `reply`."""
        match wish:
            case Lock():
                return self.locking.lock(wish, self.is_cancelled)
            case Unlock(n=n):
                return self.locking.unlock(n)
            case Start():
                return self._start(wish)
            case Signal():
                return self._signal(wish)
            case Limits(n=n, idle=idle, leave_within=leave):
                if self.child is not None and self.child.n == n:
                    self.child.limit(idle, leave, self._clock.now)
                return encode("ok", to="limits", n=n)
            case Status():
                return self.state("state", to="status")
            case Ack(upto=upto):
                return self._acknowledge(upto)
            case End():
                self.is_over = self.child is None and self.locking.held is None
                return encode("bye" if self.is_over else "busy", to="end")
        return encode("unknown", to=getattr(wish, "word", ""))

    def state(self, word: str, **more: object) -> bytes:
        """How things stand, as a message."""
        child: dict[str, object] | None = None
        if self.child is not None:
            out, err = self.child.sizes
            child = {"n": self.child.n, "pid": self.child.pid, "start": self.child.start, "out": out, "err": err}
        held = self.locking.held
        lock = None if held is None else {"dev": held.device, "ino": held.inode}
        orders = {str(n): entry.word for n, entry in self._entries.items()}
        return encode(word, **more, protocol=PROTOCOL, orders=orders, child=child, lock=lock, cancelled=self.is_cancelled)

    def cancel(self) -> None:
        """End the child for good and start no other; tell it and put it on record."""
        if not self.is_cancelled:
            self.is_cancelled = True
            self._record.add("cancelled")
            self._push(encode("cancelled"))
        self.end_child("cancel")

    def end_child(self, cause: str) -> None:
        """End the child within the grace of its order."""
        if self.child is not None:
            self.child.end(cause, self.child.grace, self._clock.now)
            self.is_stirred = True

    def advance(self) -> None:
        """Look after the child."""
        self.is_stirred = False
        child = self.child
        if child is None:
            return
        child.advance(self._clock.now)
        if child.ended is not None:
            self._close(child)
            self.child = None
            self._tell_end(child)

    def _start(self, wish: Start) -> bytes | None:
        n, known = wish.n, self._entries.get(wish.n)
        if known is not None:
            if known.word == "barred":
                return encode("barred", to="start", n=n)
            if known.token != wish.token:
                return encode("conflict", to="start", n=n)
            return None if known.word == "starting" else known.answer(n)
        if n <= self._acknowledged:
            return encode("forgotten", to="start", n=n)
        if self.is_cancelled:
            return self._bar(n, "start")
        if self.child is not None:
            return encode("busy", to="start", n=n)
        if len(self._entries) >= MOST_KEPT:
            return encode("failed", to="start", n=n, stage="order", errno=errno.ENOBUFS)
        try:
            order = read_order(self._place, n)
            if order.token != wish.token:
                return encode("conflict", to="start", n=n)
            self._launch(n, order)
        except StartFailed as exc:
            return self._not_started(n, wish.token, exc)
        return None

    def _launch(self, n: int, order: OrderSpec) -> None:
        gated = launch(self._place, order)
        failure = self._record.add("child", n=n, pid=gated.pid, start=gated.start)
        if failure is not None:
            self._record.withdraw()
            gated.keep_shut()
            raise StartFailed("record", failure.errno or 0)
        gated.open_gate()
        out, err = (Stream(self._budget, f"{n}.{name}", self._trouble) for name in ("out", "err"))
        child = Invocation(n, order, self._place.spec.grace, gated, (out, err), self._clock.now)
        self.child = child
        self._entries[n] = Entry("starting", order.token, pid=gated.pid, start=gated.start)
        for fd in child.pipes:
            self._watch_pipe(child, fd)
        self._loop.watch(gated.fate, READ, lambda _: self._learn_fate(child, gated))

    def _watch_pipe(self, child: Invocation, fd: int) -> None:
        def ready(_: int) -> None:
            if not child.read(fd, self._clock.now):
                self._loop.forget(fd)
                child.close(fd)
                self.is_stirred = True

        self._loop.watch(fd, READ, ready)

    def _learn_fate(self, child: Invocation, gated: Gated) -> None:
        """The other end of the pipe was closed by exec, or says why that failed."""
        told = os.read(gated.fate, 32)
        self._loop.forget(gated.fate)
        os.close(gated.fate)
        entry = self._entries[child.n]
        if not told:
            entry.word = "started"
            self._reply("start", child.n, entry.answer(child.n))
            return
        self._close(child)
        child.discard()
        self.child = None
        answer = self._not_started(child.n, entry.token, StartFailed("exec", int(told)))
        self._reply("start", child.n, answer)
        self._reply("signal", child.n, encode("gone", to="signal", n=child.n))

    def _not_started(self, n: int, token: str | None, why: StartFailed) -> bytes:
        self._record.add("failed", n=n, stage=why.stage, errno=why.errno)
        entry = self._entries[n] = Entry("failed", token, stage=why.stage, errno=why.errno)
        return entry.answer(n)

    def _close(self, child: Invocation) -> None:
        for fd in tuple(child.pipes):
            self._loop.forget(fd)
            child.close(fd)

    def _tell_end(self, child: Invocation) -> None:
        ended, (out, err) = child.ended, child.sizes
        if ended is None:
            return
        how = {"code": ended.code, "signal": ended.signal, "cause": ended.cause, "out": out, "err": err, "dropped": child.dropped}
        self._record.add("exit", n=child.n, **how)
        former = self._entries.get(child.n)
        fields = {"pid": child.pid, "start": child.start, **how, "left": list(ended.left)}
        entry = self._entries[child.n] = Entry("exited", former.token if former else None, **fields)
        self._reply("start", child.n, entry.answer(child.n))
        self._push(encode("exited", n=child.n, **fields))
        self._reply("signal", child.n, encode("gone", to="signal", n=child.n))

    def _signal(self, wish: Signal) -> bytes | None:
        n, known = wish.n, self._entries.get(wish.n)
        if self.child is not None and self.child.n == n:
            self.child.end("signal", wish.grace, self._clock.now)
            self.is_stirred = True
            return None
        if (known is None and n > self._acknowledged) or (known is not None and known.word == "barred"):
            return self._bar(n, "signal")
        return encode("gone" if known is not None else "forgotten", to="signal", n=n)

    def _bar(self, n: int, to: str) -> bytes:
        if n not in self._entries:
            self._record.add("bar", n=n)
            self._entries[n] = Entry("barred")
        return encode("barred", to=to, n=n)

    def _acknowledge(self, upto: int) -> bytes:
        self._acknowledged = max(self._acknowledged, upto)
        live = None if self.child is None else self.child.n
        self._entries = {n: entry for n, entry in self._entries.items() if n > upto or n == live}
        if live is None and self._record.is_long:
            self._record.rewrite(self.records())
        return encode("ok", to="ack", upto=upto)

    def records(self) -> list[bytes]:
        """What a record must hold that begins now, without a child."""
        told = [line for n, entry in self._entries.items() for line in entry.records(n)]
        return [self._up, *self.locking.records(), *told, *([encode("cancelled")] if self.is_cancelled else [])]

    def _trouble(self, what: str, number: int) -> None:
        """Tell it, once for each kind."""
        if (what, number) not in self._troubles:
            self._troubles.add((what, number))
            self._push(encode("trouble", what=what, errno=number))

"""A shim in this process, with real children and none of the hard parts; and one that can be made to misbehave.

It speaks the protocol of `cueloop_daemon.shim.wire` on a thread of its own, so that it depends on no event loop. It holds the run's
lock like the real one, so that a daemon finds it as such. What it cannot do: outlive the test, find grandchildren, limit output.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from cueloop_daemon.runs.shim.folder import Folder
from cueloop_daemon.shim import queuelock
from cueloop_daemon.shim.spec import parse_order
from cueloop_daemon.shim.wire import (
    PROTOCOL,
    Ack,
    Clear,
    End,
    Hello,
    Lines,
    Lock,
    Signal,
    Start,
    Status,
    Unlock,
    Wish,
    encode,
    owner_text,
    parse_wish,
)
from cueloop_protocol.identity import boot_id, process_start_time


@dataclass
class _Child:
    n: int
    process: subprocess.Popen[bytes]
    start: str
    cause: str = "self"
    kill_at: float | None = None
    told: tuple[int, int] = (0, 0)


@dataclass
class FakeShim:
    """`serve()` in a thread until `die()`. `refuse` is what every hello gets; `mute` hears everything and says nothing."""

    folder: Folder
    root: str
    path: str
    refuse: str | None = None
    mute: bool = False
    cut_after: int | None = None
    """Cut the connection instead of giving this many more answers."""
    pause: bool = False
    """Does not even accept connections."""
    odd: dict[str, bytes] = field(default_factory=dict)
    """What is answered to a wish of this kind instead."""
    full: bool = False
    """No lock can be made."""
    wishes: list[Wish] = field(default_factory=list)
    orders: dict[int, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    tokens: dict[int, str] = field(default_factory=dict)
    generation: int = -1
    cancelled: bool = False
    child: _Child | None = None
    lock: queuelock.Made | None = None

    def __post_init__(self) -> None:
        self._lock = os.open("shim.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600, dir_fd=self.folder.fd)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._root = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen(8)
        self._link: socket.socket | None = None
        self._links: dict[socket.socket, Lines] = {}
        self._waiting: set[tuple[str, int]] = set()
        self._bell, self._ring = os.pipe()
        self._dead = False
        self._thread = threading.Thread(target=self._serve, name="fake shim", daemon=True)
        self._up({"pid": os.getpid(), "start": process_start_time(os.getpid()), "boot": boot_id()})
        self._thread.start()

    def die(self) -> None:
        """As by `kill -9`: the connection breaks, the lock is free; the child goes on."""
        if not self._dead:
            self._dead = True
            os.write(self._ring, b"!")
            self._thread.join(5)
            assert not self._thread.is_alive()

    def break_connection(self) -> None:
        """The daemon's connection ends, and nothing else."""
        self.cut_after = 0
        os.write(self._ring, b"!")

    def term(self) -> None:
        """As by SIGTERM."""
        self.cancelled = True
        os.write(self._ring, b"c")

    def count(self, kind: type[Wish]) -> int:
        """How many wishes of this kind came."""
        return sum(isinstance(wish, kind) for wish in self.wishes)

    def _up(self, up: dict[str, object]) -> None:
        told = {**up, "protocol": PROTOCOL, "socket": self.path}
        fd = os.open("shim.json", os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=self.folder.fd)
        os.write(fd, json.dumps(told).encode())
        os.close(fd)

    def _serve(self) -> None:
        try:
            while not self._dead:
                doors = [] if self.pause else [self._listener]
                ready, _, _ = select.select([*doors, self._bell, *self._links], [], [], 0.01)
                for one in ready:
                    if one is self._listener:
                        self._links[self._listener.accept()[0]] = Lines()
                    elif one == self._bell:
                        self._heed(os.read(self._bell, 1))
                    elif one in self._links:
                        self._receive(one)
                self._look_after_child()
        finally:
            for link in (*self._links, self._listener):
                link.close()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)
            for fd in (self._lock, self._root, self._bell, self._ring):
                os.close(fd)

    def _heed(self, what: bytes) -> None:
        if what == b"c":
            self._push(encode("cancelled"))
        elif self.cut_after == 0 and self._link is not None:
            self.cut_after = None
            self._close(self._link)

    def _receive(self, link: socket.socket) -> None:
        data = b""
        with contextlib.suppress(ConnectionError):  # a daemon that leaves with something unread resets the connection
            data = link.recv(65536)
        if not data:
            self._close(link)
            return
        for line in self._links[link].feed(data):
            wish = parse_wish(line)
            self.wishes.append(wish)
            if isinstance(wish, Hello):
                self._greet(link, wish)
            elif link is self._link and not self.mute and (answer := self._obey(wish)) is not None:
                self._push(answer)
            if link not in self._links:
                return

    def _greet(self, link: socket.socket, hello: Hello) -> None:
        why = self.refuse or ("fenced" if hello.generation < self.generation else None)
        if why is not None:
            with contextlib.suppress(OSError):
                link.sendall(encode("refused", why=why))
            self._close(link)
            return
        if self._link is not None:
            with contextlib.suppress(OSError):
                self._link.sendall(encode("refused", why="fenced"))
            self._close(self._link)
        self._link, self.generation = link, hello.generation
        self._waiting.clear()
        with contextlib.suppress(OSError):
            link.sendall(self.odd.get("Hello") or self._state("shim"))

    def _close(self, link: socket.socket) -> None:
        del self._links[link]
        link.close()
        if link is self._link:
            self._link = None

    def _push(self, data: bytes) -> None:
        if self._link is None:
            return
        if self.cut_after == 0:
            self.cut_after = None
            self._close(self._link)
            return
        if self.cut_after is not None:
            self.cut_after -= 1
        with contextlib.suppress(OSError):
            self._link.sendall(data)

    def push(self, data: bytes) -> None:
        """Say something unasked, from the test's thread."""
        assert self._link is not None
        self._link.sendall(data)

    def _state(self, word: str, **more: object) -> bytes:
        child = None
        if self.child is not None:
            out, err = self.folder.sizes(self.child.n)
            child = {"n": self.child.n, "pid": self.child.process.pid, "start": self.child.start, "out": out, "err": err}
        lock = None if self.lock is None else {"dev": self.lock.device, "ino": self.lock.inode}
        orders = {str(n): word for n, (word, _) in self.orders.items()}
        return encode(word, **more, protocol=PROTOCOL, orders=orders, child=child, lock=lock, cancelled=self.cancelled)

    def _obey(self, wish: Wish) -> bytes | None:
        if type(wish).__name__ in self.odd:
            return self.odd[type(wish).__name__]
        match wish:
            case Start():
                return self._start(wish)
            case Signal(n=n, grace=grace):
                return self._signal(n, grace)
            case Lock():
                return self._take_lock(wish)
            case Unlock(n=n):
                if self.lock is None:
                    return encode("absent", to="unlock", n=n)
                queuelock.release(self._root, self.lock)
                self.lock = None
                return encode("unlocked", to="unlock", n=n, left=[])
            case Status():
                return self._state("state", to="status")
            case Ack(upto=upto):
                self.orders = {n: one for n, one in self.orders.items() if n > upto}
                return encode("ok", to="ack", upto=upto)
            case End():
                is_free = self.child is None and self.lock is None
                if is_free:
                    self._push(encode("bye", to="end"))
                    self._dead = True
                    return None
                return encode("busy", to="end")
        return encode("ok", to=type(wish).__name__.lower(), n=getattr(wish, "n", None))

    def _start(self, wish: Start) -> bytes:
        n = wish.n
        if n in self.orders:
            word, fields = self.orders[n]
            if word != "barred" and self.tokens.get(n) != wish.token:
                return encode("conflict", to="start", n=n)
            return encode(word, to="start", n=n, **fields)
        if self.cancelled:
            self.orders[n] = ("barred", {})
            return encode("barred", to="start", n=n)
        with open(f"{self.folder.path}/{n}.order", "rb") as file:
            order = parse_order(file.read())
        if order.token != wish.token:
            return encode("conflict", to="start", n=n)
        self.tokens[n] = order.token
        stdin = None if order.stdin is None else os.path.join(self.folder.path, order.stdin)
        try:
            with contextlib.ExitStack() as files:
                inputs = files.enter_context(open(stdin or os.devnull, "rb"))
                out, err = (files.enter_context(open(f"{self.folder.path}/{n}.{one}.0", "wb")) for one in ("out", "err"))
                env = {**order.env, "CUELOOP_RUN_ID": self.folder.run_id}
                process = subprocess.Popen(
                    order.argv, stdin=inputs, stdout=out, stderr=err, env=env, cwd=self.root, start_new_session=True
                )
        except OSError as exc:
            fields = {"stage": "exec", "errno": exc.errno}
            self.orders[n] = ("failed", fields)
            return encode("failed", to="start", n=n, **fields)
        self.child = _Child(n, process, process_start_time(process.pid) or "")
        fields = {"pid": process.pid, "start": self.child.start}
        self.orders[n] = ("started", fields)
        return encode("started", to="start", n=n, **fields)

    def _signal(self, n: int, grace: float) -> bytes | None:
        if self.child is not None and self.child.n == n:
            self.child.cause = "signal"
            os.killpg(self.child.process.pid, signal.SIGINT)
            self.child.kill_at = min(self.child.kill_at or 1e9, time.monotonic() + grace)
            self._waiting.add(("signal", n))
            return None
        if n in self.orders and self.orders[n][0] != "barred":
            return encode("gone", to="signal", n=n)
        self.orders[n] = ("barred", {})
        return encode("barred", to="signal", n=n)

    def _look_after_child(self) -> None:
        child = self.child
        if child is None:
            return
        sizes = self.folder.sizes(child.n)
        if sizes != child.told:
            child.told = sizes
            self._push(encode("grown", n=child.n, out=sizes[0], err=sizes[1]))
        if child.kill_at is not None and time.monotonic() >= child.kill_at:
            os.killpg(child.process.pid, signal.SIGKILL)
            child.kill_at = None
        if child.process.poll() is not None:
            self.child = None
            self._tell_end(child)

    def _tell_end(self, child: _Child) -> None:
        code = child.process.returncode
        out, err = self.folder.sizes(child.n)
        how = {"code": code if code >= 0 else None, "signal": -code if code < 0 else None, "cause": child.cause}
        fields = {"pid": child.process.pid, "start": child.start, **how, "out": out, "err": err, "dropped": 0, "left": []}
        self.orders[child.n] = ("exited", fields)
        self._push(encode("exited", n=child.n, **fields))
        if ("signal", child.n) in self._waiting:
            self._push(encode("gone", to="signal", n=child.n))

    def _take_lock(self, wish: Lock) -> bytes:
        if self.full or self.cancelled:
            return encode("error", to="lock", n=wish.n, errno=errno.ECANCELED if self.cancelled else errno.ENOSPC)
        root = self._root
        if self.lock is None:
            if wish.clear is not None:
                queuelock.clear(root, Clear(wish.clear.device, wish.clear.inode, wish.clear.owner))
            owner = queuelock.owner_file(os.getpid(), wish.started_at, wish.command, wish.label)
            taken = queuelock.take(root, ".lock-fake", owner, lambda _: None)
            if isinstance(taken, queuelock.Held):
                text = None if taken.owner is None else owner_text(taken.owner)
                place = {"dev": taken.device, "ino": taken.inode}
                return encode("held", to="lock", n=wish.n, **place, owner=text, names=list(taken.names))
            self.lock = taken
        text = owner_text(self.lock.owner)
        return encode("made", to="lock", n=wish.n, dev=self.lock.device, ino=self.lock.inode, owner=text)

"""A small server with methods that do what a test wants to see, and a client that speaks raw frames to it."""

from __future__ import annotations

import json
import os
import socket
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import anyio

from cueloop_daemon.events.sink import Sink
from cueloop_daemon.server import Call, Entry, Limits, Listener, Reply, Result, Server, When
from cueloop_protocol import codes
from cueloop_protocol.base import Maybe, Wire
from cueloop_protocol.framing import Decoder, FrameError, Kind, encode

QUICK = Limits(linger=0.2, grace=0.5, farewell=0.2)


class Nothing(Wire):
    pass


class Text(Wire):
    text: str
    times: Maybe[int] = None


class Named(Wire):
    name: str


class FixedClock:
    """Every reading is one second later than the one before."""

    def __init__(self) -> None:
        self.seconds = 0

    def now(self) -> datetime:
        return datetime(2026, 2, 7, tzinfo=UTC)

    def monotonic(self) -> float:
        self.seconds += 1
        return float(self.seconds)


@dataclass
class World:
    """What handlers reach. `told` is what happened, in order; gates hold calls back until a test opens them."""

    told: list[str] = field(default_factory=list)
    gates: dict[str, anyio.Event] = field(default_factory=dict)
    begun: dict[str, anyio.Event] = field(default_factory=dict)
    fresh: bool = False
    peers: list[Any] = field(default_factory=list)
    sinks: list[Sink] = field(default_factory=list)
    server: Server[World] | None = None

    def gate(self, name: str) -> anyio.Event:
        return self.gates.setdefault(name, anyio.Event())

    def begins(self, name: str) -> anyio.Event:
        return self.begun.setdefault(name, anyio.Event())


@dataclass(frozen=True)
class Does:
    """An effect that does what it is given."""

    when: When
    what: Callable[[Call[World]], Any]

    async def perform(self, call: Call[Any]) -> Result | None:
        found: Result | None = await self.what(call)
        return found


def ping(call: Call[World], params: Nothing) -> Reply:
    call.services.peers.append(call.peer)
    return Reply(b"{}")


def echo(call: Call[World], params: Text) -> Reply:
    return Reply({"text": params.text * (params.times or 1)})


def model(call: Call[World], params: Text) -> Reply:
    return Reply(params)


def big(call: Call[World], params: Text) -> Reply:
    call.services.told.append("made")
    return Reply(b'"' + params.text.encode() * (params.times or 1) + b'"')


def broken(call: Call[World], params: Nothing) -> Reply:
    raise ValueError("the secret path /home/somebody")


def refused(call: Call[World], params: Nothing) -> Reply:
    raise codes.conflict("It changed.", session_etag="abc")


def unprintable(call: Call[World], params: Nothing) -> Reply:
    return Reply({"x": object()})


async def wait(call: Call[World], params: Named) -> None:
    world = call.services
    world.told.append(f"prepare {params.name}")
    world.begins(params.name).set()
    try:
        await world.gate(params.name).wait()
    except anyio.get_cancelled_exc_class():
        world.told.append(f"cancelled {params.name}")
        raise


def named(call: Call[World], params: Named) -> Reply:
    call.services.told.append(f"handle {params.name}")
    return Reply({"name": params.name})


def is_fresh(call: Call[World], params: Named) -> bool:
    return call.services.fresh


async def wait_in_group(call: Call[World], params: Nothing) -> None:
    async with anyio.create_task_group():
        raise codes.conflict("in a group")


async def wait_badly(call: Call[World], params: Nothing) -> None:
    raise OSError("/home/somebody is not there")


def write(call: Call[World], params: Named) -> Reply:
    """A write that begins, waits at its gate, and ends."""

    async def perform(call: Call[World]) -> Result:
        world = call.services
        world.told.append(f"write {params.name}")
        world.begins(params.name).set()
        await world.gate(params.name).wait()
        world.told.append(f"written {params.name}")
        return {"written": params.name}

    return Reply(b"null", (Does(When.WRITE, perform),))


def ordered(call: Call[World], params: Nothing) -> Reply:
    """Effects given in the wrong order."""

    def tells(word: str) -> Callable[[Call[World]], Any]:
        async def perform(call: Call[World]) -> None:
            call.services.told.append(word)

        return perform

    return Reply(
        b"{}",
        (
            Does(When.AFTER_REPLY, tells("after 1")),
            Does(When.SUBSCRIBE, tells("subscribe")),
            Does(When.WRITE, tells("write 1")),
            Does(When.AFTER_REPLY, tells("after 2")),
            Does(When.WRITE, tells("write 2")),
        ),
    )


def failing(call: Call[World], params: Named) -> Reply:
    """Effects of which one fails, before or after the reply."""

    async def fails(call: Call[World]) -> None:
        raise codes.conflict("Somebody wrote in between.") if params.name == "rpc" else OSError("disk")

    async def tells(call: Call[World]) -> None:
        call.services.told.append("the next one")

    when = When.AFTER_REPLY if params.name == "after" else When.WRITE
    return Reply(b"{}", (Does(when, fails), Does(when, tells)))


def subscribe(call: Call[World], params: Named) -> Reply:
    """Registers the sink and lets an event loose at once, as an eager hub would."""

    async def perform(call: Call[World]) -> Result:
        call.services.sinks.append(call.peer.sink)
        return {"subscription": params.name}

    return Reply(b"null", (Does(When.SUBSCRIBE, perform),))


def stop(call: Call[World], params: Nothing) -> Reply:
    async def perform(call: Call[World]) -> None:
        assert call.services.server is not None
        call.services.server.close("stopped")

    return Reply(b"{}", (Does(When.AFTER_REPLY, perform),))


def farewell(call: Call[World], params: Named) -> Reply:
    call.peer.farewells.append(lambda: call.services.told.append(f"farewell {params.name}"))
    return Reply(b"{}")


TABLE: dict[str, Entry[World, Any]] = {
    "ping": Entry(Nothing, ping),
    "echo": Entry(Text, echo),
    "model": Entry(Text, model),
    "big": Entry(Text, big),
    "broken": Entry(Nothing, broken),
    "refused": Entry(Nothing, refused),
    "unprintable": Entry(Nothing, unprintable),
    "wait": Entry(Named, named, wait, is_fresh),
    "waitBig": Entry(Text, big, lambda call, params: wait(call, Named(name="big"))),
    "waitInGroup": Entry(Nothing, ping, wait_in_group),
    "waitBadly": Entry(Nothing, ping, wait_badly),
    "durable": Entry(Named, named, wait, durable=True),
    "write": Entry(Named, write),
    "durableWrite": Entry(Named, write, durable=True),
    "ordered": Entry(Nothing, ordered),
    "failing": Entry(Named, failing),
    "subscribe": Entry(Named, subscribe),
    "stop": Entry(Nothing, stop, durable=True),
    "farewell": Entry(Named, farewell),
}


class Client:
    """One end of a connection, frame by frame. Everything has an end: five seconds."""

    def __init__(self, stream: anyio.abc.SocketStream, kind: Kind | None = Kind.LINES) -> None:
        self.stream = stream
        self.kind = kind
        self._decoder = Decoder()
        self._frames: list[bytes | FrameError] = []

    async def raw(self, data: bytes, size: int | None = None) -> None:
        """Send bytes, in pieces of `size`."""
        with anyio.fail_after(20):
            for start in range(0, len(data), size or len(data) or 1):
                await self.stream.send(data[start : start + (size or len(data))])

    async def send(self, value: object) -> None:
        await self.raw(encode(json.dumps(value).encode(), self.kind))

    async def ask(self, method: str, key: object = 1, /, **params: object) -> None:
        """Send a request with the id `key`."""
        await self.send({"jsonrpc": "2.0", "id": key, "method": method, "params": params})

    async def next(self) -> Any:
        """The next message. EndOfStream at the end."""
        with anyio.fail_after(20):
            while not self._frames:
                self._frames = self._decoder.feed(await self.stream.receive())
        frame = self._frames.pop(0)
        assert isinstance(frame, bytes)
        return json.loads(frame)

    async def call(self, method: str, /, **params: object) -> Any:
        await self.ask(method, "call", **params)
        return await self.next()

    async def ended(self) -> bool:
        """Whether the server ends the connection now, without another word."""
        try:
            found = await self.next()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return True
        raise AssertionError(f"another word: {found}")

    @property
    def sock(self) -> socket.socket:
        found: socket.socket = self.stream.extra(anyio.abc.SocketAttribute.raw_socket)
        return found


def code(answer: Any) -> int:
    """The code of an error answer."""
    found: int = answer["error"]["code"]
    return found


@dataclass
class Running:
    """A server that serves."""

    world: World
    server: Server[World]
    listener: Listener
    path: str

    @asynccontextmanager
    async def client(self, kind: Kind | None = Kind.LINES) -> AsyncIterator[Client]:
        async with await anyio.connect_unix(self.path) as stream:
            yield Client(stream, kind)


@asynccontextmanager
async def serving(limits: Limits = QUICK, **options: Any) -> AsyncIterator[Running]:
    """A server on a socket of its own, closed and drained at the end."""
    world = World()
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/d.sock"
        listener = Listener.bind(path)
        server = Server(TABLE, world, clock=FixedClock(), uid=options.pop("uid", os.getuid()), limits=limits, **options)
        world.server = server
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                await tasks.start(server.serve, listener)
                yield Running(world, server, listener, path)
                server.close("stopped")

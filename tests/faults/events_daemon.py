"""A process with nothing but an event log, a hub and a socket, to be killed and restarted by tests.

Run as `python events_daemon.py FOLDER SOCKET LIMIT BACKEND`. A client sends one JSON line {"cursor", "kinds"} and is answered
by one line {"cursor"}, then hears its notifications. On standard input: `publish NUMBER SIZE`, `status`; each is answered by one
line. The text of the event with seq n is the number n, so that a test can tell what it hears from what was said.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import sys
import time
from dataclasses import asdict

import anyio
from anyio.abc import TaskGroup

from cueloop_daemon.events import Filter, Hub, Journal, NewEvent, Place, SinkClosed
from cueloop_protocol.cursor import Cursor

KINDS = ("warning", "queue_snapshot", "runner_output")


class SocketSink:
    """A non-blocking socket that keeps the rest of at most one frame."""

    def __init__(self, sock: socket.socket, tasks: TaskGroup) -> None:
        self._sock = sock
        self._tasks = tasks
        self._rest = b""
        self._flushed = anyio.Event()
        self.closed = False

    def frame(self, body: bytes) -> bytes:
        return body + b"\n"

    def offer(self, frame: bytes) -> bool:
        if self._rest or self.closed:
            return False
        try:
            sent = self._sock.send(frame)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.closed = True
            return False
        self._rest = frame[sent:]
        if self._rest:
            self._flushed = anyio.Event()
            self._tasks.start_soon(self._flush)
        return True

    async def drained(self) -> None:
        if self._rest:
            await self._flushed.wait()
        if self.closed:
            raise SinkClosed

    def close(self) -> None:
        self.closed = True
        self._flushed.set()

    async def _flush(self) -> None:
        while self._rest and not self.closed:
            try:
                await anyio.wait_writable(self._sock)
                self._rest = self._rest[self._sock.send(self._rest) :]
            except BlockingIOError:
                continue
            except (OSError, anyio.ClosedResourceError):
                self.closed = True
        self._flushed.set()


async def serve_client(hub: Hub, tasks: TaskGroup, sock: socket.socket) -> None:
    """Subscribe, reply, start; then wait for the end of the connection."""
    sink = SocketSink(sock, tasks)
    try:
        wish = json.loads(await receive_line(sock))
        kinds = frozenset(wish["kinds"]) if wish.get("kinds") else None
        cursor = Cursor.parse(wish["cursor"]) if wish.get("cursor") else None
        subscribed = await hub.subscribe(sink, Filter(kinds=kinds), cursor)
        sink.offer(sink.frame(json.dumps({"cursor": str(subscribed.cursor)}).encode()))
        hub.start(subscribed.subscription)
        while await receive(sock):
            pass
    except (OSError, ValueError):
        pass
    finally:
        hub.forget(sink)
        sink.close()
        anyio.notify_closing(sock)
        sock.close()


async def receive(sock: socket.socket) -> bytes:
    while True:
        await anyio.wait_readable(sock)
        try:
            return sock.recv(65536)
        except BlockingIOError:
            continue


async def receive_line(sock: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        piece = await receive(sock)
        if not piece:
            raise ConnectionResetError
        line += piece
    return line


async def accept(hub: Hub, listener: socket.socket) -> None:
    async with anyio.create_task_group() as tasks:
        while True:
            await anyio.wait_readable(listener)
            try:
                sock, _ = listener.accept()
            except BlockingIOError:
                continue
            sock.setblocking(False)
            tasks.start_soon(serve_client, hub, tasks, sock)


async def publish(hub: Hub, number: int, size: int) -> None:
    """So many events, in groups of changing size."""
    said = hub.publish_all([])
    last = said + number
    while said < last:
        count = min(last - said, 1 + said % 7)
        said = hub.publish_all([event(said + one, size) for one in range(1, count + 1)])
        await hub.room()
        if said % 50 < 7:
            await anyio.lowlevel.checkpoint()
    await hub.flush()


def event(number: int, size: int) -> NewEvent:
    if size:  # somebody prints
        payload = {"text": f"{number} ".ljust(size, "x")}
        params = {"run_id": "r", "origin": "run", "event": {"version": 3, "kind": "runner_output", "payload": payload}}
        return NewEvent("event", "runner_output", "r", None, json.dumps(params).encode())
    kind = KINDS[number % 2]
    params = {"origin": "watch", "event": {"version": 3, "kind": kind, "message": str(number)}}
    return NewEvent("event", kind, None, None, json.dumps(params).encode())


def answer(text: str) -> None:
    os.write(1, text.encode() + b"\n")


async def obey(hub: Hub) -> None:
    """Commands from standard input, until it ends."""
    buffered = b""
    while True:
        line, newline, rest = buffered.partition(b"\n")
        if not newline:
            await anyio.wait_readable(0)
            piece = os.read(0, 4096)
            if not piece:
                return
            buffered += piece
            continue
        buffered = rest
        match line.decode().split():
            case ["publish", number, size]:
                await publish(hub, int(number), int(size))
                answer(f"published {hub.cursor.seq}")
            case ["status"]:
                answer(json.dumps(asdict(hub.status)))


async def main(folder: str, path: str, limit: str) -> None:
    place = Place(f"{folder}/events.db", lambda: None, "this-boot", lambda: secrets.token_hex(8), int(limit))
    hub = Hub(Journal(place, time.monotonic), lambda audience: b'{"state":true}')
    listener = socket.socket(socket.AF_UNIX)
    listener.setblocking(False)
    async with anyio.create_task_group() as tasks:
        await tasks.start(hub.run)
        listener.bind(path)
        listener.listen(16)
        tasks.start_soon(accept, hub, listener)
        answer(f"ready {hub.cursor}")
        await obey(hub)
        hub.stop()
        tasks.cancel_scope.cancel()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], sys.argv[3], backend=sys.argv[4])

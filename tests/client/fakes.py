"""A daemon that says what a test wants, over a real Unix socket, and a world whose output can be read."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from cueloop_client.world import World
from cueloop_daemon.store.lockfile import LockFile, take_lock
from cueloop_protocol import owners
from cueloop_protocol.place import ensure_private_folder, ensure_socket_folder, local_folder, local_lock_path, root_hash
from cueloop_protocol.roots import Root


class Recorder:
    """What was written to descriptors 1 and 2."""

    def __init__(self) -> None:
        self.data = {1: bytearray(), 2: bytearray()}

    def write(self, fd: int, data: bytes) -> None:
        self.data[fd] += data

    @property
    def out(self) -> str:
        return self.data[1].decode()

    @property
    def err(self) -> str:
        return self.data[2].decode()


def make_world(
    environ: Mapping[str, str],
    recorder: Recorder | None = None,
    *,
    lines: tuple[str, ...] = (),
    terminal: bool = False,
    wall: Callable[[], float] = time.time,
    uid: int | None = None,
) -> World:
    """A world with this environment; `lines` are what a person types."""
    answers = iter(lines)
    return World(
        environ=environ,
        uid=os.getuid() if uid is None else uid,
        monotonic=time.monotonic,
        wall=wall,
        write=(recorder or Recorder()).write,
        read_line=lambda: next(answers, ""),
        is_terminal=lambda fd: terminal,
        program="",
    )


class Connection:
    """One accepted connection, as a handler sees it."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def send(self, message: object) -> None:
        self.raw(json.dumps(message).encode() + b"\n")

    def raw(self, data: bytes) -> None:
        with suppress(OSError):
            self.sock.sendall(data)

    def answer(self, request: Mapping[str, Any], result: object) -> None:
        self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def refuse(self, request: Mapping[str, Any], error: object) -> None:
        self.send({"jsonrpc": "2.0", "id": request["id"], "error": error})

    def close(self) -> None:
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)


def _sign(root: Root) -> str:
    """Say that this process is the root's daemon, where a daemon does, unless the test has said it; the path of the file."""
    folder = owners.local_folder(os.getuid())
    if owners.read_owner(folder, root_hash(root), os.getuid()) is not None:
        return f"{folder}/{root_hash(root)}{owners.ENDING}"
    ensure_private_folder(local_folder(os.getuid()), os.getuid())
    lock = take_lock(local_lock_path(root, os.getuid()), lambda fd, how: None, 5.0)
    assert isinstance(lock, LockFile)
    status = os.stat(root.base)
    lock.sign(root.path, f"{status.st_dev}-{status.st_ino}")
    lock.close()
    return lock.path


Handler = Callable[[Connection, dict[str, Any]], None]


class FakeDaemon:
    """Listens at the computed place of a root and gives each message to `handler`, each connection in a thread of its own."""

    def __init__(
        self, root: Root, environ: Mapping[str, str], handler: Handler, *, backlog: int = 128, signs: bool = True
    ) -> None:
        self.handler = handler
        self.received: list[dict[str, Any]] = []
        self.path = os.path.join(ensure_socket_folder(root, environ, os.getuid()), "d.sock")
        self._connections: list[Connection] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._arrived = threading.Condition(self._lock)
        self.accepted = 0
        with suppress(FileNotFoundError):
            os.unlink(self.path)
        self._sock = socket.socket(socket.AF_UNIX)
        self._sock.bind(self.path)
        self._sock.listen(backlog)
        self._signed = _sign(root) if signs else ""

    def serve(self) -> None:
        thread = threading.Thread(target=self._accept)
        self._threads.append(thread)
        thread.start()

    def drop_connections(self) -> None:
        """Close every connection, as a daemon does that dies."""
        with self._lock:
            connections, self._connections = self._connections, []
        for connection in connections:
            connection.close()

    def await_message(self, wanted: Callable[[dict[str, Any]], bool], seconds: float = 10.0) -> dict[str, Any]:
        """The first message received that fits; waits for it."""
        with self._arrived:
            found = self._arrived.wait_for(lambda: next((m for m in self.received if wanted(m)), None), seconds)
        assert found is not None, f"no such message among {self.received}"
        return found

    def close(self) -> None:
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()
        self.drop_connections()
        for thread in self._threads:
            thread.join(10)
        for path in (self.path, self._signed):
            with suppress(FileNotFoundError):
                os.unlink(path)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._sock.accept()
            except OSError:
                return
            connection = Connection(sock)
            thread = threading.Thread(target=self._talk, args=(connection,))
            with self._lock:
                self.accepted += 1
                self._connections.append(connection)
                self._threads.append(thread)
            thread.start()

    def _talk(self, connection: Connection) -> None:
        with connection.sock, suppress(OSError), connection.sock.makefile("rb") as lines:
            for line in lines:
                message = json.loads(line)
                with self._arrived:
                    self.received.append(message)
                    self._arrived.notify_all()
                self.handler(connection, message)


@contextmanager
def serving(root: Root, environ: Mapping[str, str], handler: Handler, *, signs: bool = True) -> Iterator[FakeDaemon]:
    """A fake daemon that serves while the block lasts. `signs`: its lock names it, as every live daemon's does."""
    daemon = FakeDaemon(root, environ, handler, signs=signs)
    daemon.serve()
    try:
        yield daemon
    finally:
        daemon.close()


def answering(results: Mapping[str, object]) -> Handler:
    """A handler that answers methods from a table; an Exception's `to_wire` is an error."""

    def handle(connection: Connection, request: dict[str, Any]) -> None:
        result = results[request["method"]]
        if isinstance(result, Exception):
            connection.refuse(request, result.to_wire())  # type: ignore[attr-defined]
        else:
            connection.answer(request, result)

    return handle

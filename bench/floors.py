"""The floors: programs that do only what cannot be left out. `python -m bench.floors NAME PATH` prints a line when it is ready.

echo     a bare anyio server that sends each line back
watch    one inotify watch on PATH's folder; tells whoever is connected to PATH.sock of each rename
"""

from __future__ import annotations

import socket
import sys


def echo(path: str) -> None:
    """Lines come back, by anyio's own streams."""
    import anyio
    from anyio.abc import SocketStream

    async def answer(stream: SocketStream) -> None:
        async with stream:
            async for data in stream:
                await stream.send(data)

    async def serve() -> None:
        listener = await anyio.create_unix_listener(path)
        print("ready", flush=True)
        await listener.serve(answer)

    anyio.run(serve)


def watch(folder: str) -> None:
    """The kernel's own hint, passed on by a line."""
    from select import poll

    from cueloop_daemon.watch.inotify_calls import MOVED_TO, InotifyCalls

    listener = _listen(f"{folder}/watch.sock")
    calls = InotifyCalls()
    queue = calls.init()
    calls.add(queue, folder, MOVED_TO)
    print("ready", flush=True)
    told = listener.accept()[0]
    waiting = poll()
    waiting.register(queue)
    with open(queue, "rb", buffering=0) as events:
        while waiting.poll():
            if events.read(4096):
                told.sendall(b"changed\n")


def _listen(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen(1024)
    return listener


FLOORS = {"echo": echo, "watch": watch}

if __name__ == "__main__":
    FLOORS[sys.argv[1]](sys.argv[2])

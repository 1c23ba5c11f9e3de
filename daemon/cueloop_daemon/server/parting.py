"""How a connection is ended so that the other side hears why."""

from __future__ import annotations

import select
import socket
from contextlib import suppress

import anyio

from cueloop_daemon.server.envelope import refusal
from cueloop_protocol.codes import RpcError
from cueloop_protocol.framing import encode

CHUNK = 64 * 1024
"""Bytes of one read. Larger buffers cross malloc's threshold and cost a page mapping for every small message."""


async def turn_away(sock: socket.socket, error: RpcError, linger: float) -> None:
    """Tell `error` to a connection that is not served, and close it."""
    try:
        with suppress(OSError):
            sock.send(encode(refusal(None, error), None))
        with anyio.move_on_after(linger):
            await part(sock)
    finally:
        sock.close()


async def part(sock: socket.socket) -> None:
    """Stop sending, then read without looking until the peer ends: a close with unread input would take the reason from it."""
    with suppress(OSError):
        sock.shutdown(socket.SHUT_WR)
        while True:
            await anyio.wait_readable(sock)
            if not sock.recv(CHUNK):
                return


def is_gone(sock: socket.socket) -> bool:
    """Whether the peer has closed both halves (or died), and not only said that it will send no more."""
    poll = select.poll()
    poll.register(sock, 0)
    return any(event & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, event in poll.poll(0))

"""Between owner and heir: lines of JSON over a socket of their own, with descriptors beside the first. Standard library only.

Descriptors never travel on a connection of the protocol: whoever reads there with a plain `recv` would make the kernel drop them
without a word. Blocking calls that all end at a deadline.
"""

from __future__ import annotations

import array
import json
import os
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

LINE_LIMIT = 16 * 1024
MOST_DESCRIPTORS = 8
"""Room for what may come beside a message; more than three is refused, and closed."""


class ChannelEnded(Exception):
    """The other side has gone, or sent what makes no sense."""


class ChannelSilent(Exception):
    """The other side is there and said nothing by the deadline."""


class Channel:
    """One connected stream socket. Closed by `close`, and with it what came over it and was not taken."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._buffer = b""
        self._descriptors: list[int] = []

    def fileno(self) -> int:
        """For polling."""
        return self._sock.fileno()

    def send(self, message: Mapping[str, Any], seconds: float, descriptors: Sequence[int] = ()) -> None:
        """Send one message, whole. Raises ChannelEnded or ChannelSilent."""
        data = json.dumps(message, ensure_ascii=True).encode("ascii") + b"\n"
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        self._sock.settimeout(max(seconds, 0.001))
        try:
            sent = self._sock.sendmsg([data], ancillary)
            if sent < len(data):  # to send nothing fails, too, where the other side has answered and gone
                self._sock.sendall(data[sent:])
        except TimeoutError as exc:
            raise ChannelSilent from exc
        except OSError as exc:
            raise ChannelEnded(exc.strerror or "") from exc

    def receive(self, seconds: float) -> dict[str, Any]:
        """The next message. Raises ChannelEnded or ChannelSilent. Descriptors that came are given by `take`."""
        until = time.monotonic() + seconds
        while b"\n" not in self._buffer:
            if len(self._buffer) > LINE_LIMIT:
                raise ChannelEnded("the line is too long")
            self._buffer += self._read(until - time.monotonic())
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            message: object = json.loads(line)
        except (ValueError, RecursionError) as exc:
            raise ChannelEnded("no JSON") from exc
        if not isinstance(message, dict):
            raise ChannelEnded("no object")
        return message

    def take(self) -> list[int]:
        """The descriptors that came, in their order; they are the caller's from here on."""
        taken, self._descriptors = self._descriptors, []
        return taken

    def close(self) -> None:
        """May be called again."""
        close_all(self.take())
        self._sock.close()

    def _read(self, seconds: float) -> bytes:
        if seconds <= 0:
            raise ChannelSilent
        self._sock.settimeout(seconds)
        flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
        room = socket.CMSG_SPACE(MOST_DESCRIPTORS * array.array("i").itemsize)
        try:
            data, ancillary, told, _ = self._sock.recvmsg(LINE_LIMIT, room, flags)
        except TimeoutError as exc:
            raise ChannelSilent from exc
        except OSError as exc:
            raise ChannelEnded(exc.strerror or "") from exc
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                self._descriptors += _descriptors_in(content)
        if told & socket.MSG_CTRUNC:
            raise ChannelEnded("descriptors were lost on the way")
        if not data:
            raise ChannelEnded("closed")
        return data


def _descriptors_in(content: bytes) -> list[int]:
    numbers = array.array("i")
    numbers.frombytes(content[: len(content) - len(content) % numbers.itemsize])
    for number in numbers:
        os.set_inheritable(number, False)  # where the flag above is missing
    return list(numbers)


def close_all(descriptors: Sequence[int]) -> None:
    """Close what is left of something that did not go well."""
    for number in descriptors:
        with suppress(OSError):
            os.close(number)

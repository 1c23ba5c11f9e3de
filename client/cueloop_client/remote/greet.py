"""Waiting for the greeting behind what a login prints, and what it means if none comes. Standard library only."""

from __future__ import annotations

import os
import select
import subprocess
from contextlib import suppress

from cueloop_client.failures import BadAnswer, Failure, Silent, Unreachable
from cueloop_client.remote import ssh
from cueloop_client.remote.word import find_greeting, has_greeting_begun, read_greeting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from cueloop_client.remote.ssh import Line
    from cueloop_client.world import Deadline

LOGIN_SECONDS = 30.0
"""How long a login may take where nobody is asked."""
NOISE_LIMIT = 64 * 1024
"""Bytes that a login may print before the greeting."""
GREETING_LIMIT = 1024 * 1024
CHUNK = 64 * 1024
LEAVE_SECONDS = 1.0
"""How long an ssh whose output has ended is given to say its exit code."""


def greeting_of(line: Line, nonce: str, machine: str, deadline: Deadline | None) -> tuple[Mapping[str, Any], bytes]:
    """What the other side says first, and the bytes that came behind it. Raises Unreachable, Silent or BadAnswer."""
    data = bytearray()
    poll = select.poll()
    poll.register(line.reading, select.POLLIN)
    while True:
        left = None if deadline is None else deadline.left()
        if left is not None and deadline is not None and not poll.poll(left * 1000) and deadline.is_over():
            raise Silent(f"{machine} did not answer within {deadline.seconds:g} s.", line.words.last() or None)
        if left is None:
            poll.poll()
        try:
            piece = os.read(line.reading, CHUNK)
        except BlockingIOError:
            continue
        data += piece
        found = find_greeting(data, nonce)
        if found is not None:
            return read_greeting(bytes(data[slice(*found)]), nonce), bytes(data[found[1] :])
        if not piece:
            raise _no_greeting(line, machine, bytes(data))
        if len(data) > NOISE_LIMIT + (GREETING_LIMIT if has_greeting_begun(data, nonce) else 0):
            raise BadAnswer(f"The login on {machine} prints without an end where cueloop should answer.")


def _no_greeting(line: Line, machine: str, printed: bytes) -> Failure:
    with suppress(subprocess.TimeoutExpired):
        line.process.wait(LEAVE_SECONDS)
    code, words = line.process.poll(), line.words.last()
    if code == ssh.NOT_FOUND:
        return ssh.not_found(machine, words)
    if code == ssh.SSH_FAILED:
        return ssh.no_connection(machine, words)
    said = words or printed.decode("utf-8", "replace").strip()[-200:]
    return Unreachable(
        f"cueloop on {machine} ended without a greeting (exit code {code}).", f"The last that came: {said}" if said else None
    )

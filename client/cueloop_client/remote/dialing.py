"""Connections to the daemon on another machine. Standard library only."""

from __future__ import annotations

import atexit
import os
import signal
import socket
import threading
from contextlib import suppress

from cueloop_client.failures import (
    BadAnswer,
    Failure,
    Lost,
    Misfit,
    Silent,
    StartFailed,
    Stranger,
)
from cueloop_client.remote import ssh
from cueloop_client.remote.url import HostUrl
from cueloop_client.remote.word import find_greeting, read_greeting, to_word
from cueloop_protocol.roots import Caller
from cueloop_protocol.version import OLDEST_PROTOCOL_VERSION, PROTOCOL_VERSION, __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from cueloop_client.world import Deadline, World

NOISE_LIMIT = 64 * 1024
"""Bytes that a login may print before the greeting."""
GREETING_LIMIT = 1024 * 1024
KINDS: Mapping[str, type[Failure]] = {kind.__name__: kind for kind in (Failure, Silent, Stranger, StartFailed, Misfit, Lost)}
"""What the other side says went wrong there, by its name."""
KINDS = {**KINDS, "Older": Misfit, "Unsent": Lost}

_running: set[Any] = set()


class SshDistance:
    """The way over ssh. The first connection may ask a person at the terminal, those after it ask nobody."""

    def __init__(self, url: HostUrl, world: World) -> None:
        self._url = url
        self._world = world
        self._lock = threading.Lock()
        self._asked = not (world.is_terminal(0) and world.is_terminal(2))
        self._kept: socket.socket | None = None
        self._greeting: Mapping[str, Any] | None = None

    def dial(self, deadline: Deadline, *, start: bool) -> socket.socket | None:
        """A connection to the daemon there; None if none runs and none was to be started.

        Raises SshFailed, Silent, Misfit, BadAnswer, and what the other side says went wrong there.
        """
        with self._lock:
            kept, self._kept = self._kept, None
        if kept is not None:
            return kept
        return self._dial(deadline, start=start)

    def caller(self) -> Caller:
        """Whose configuration counts there. Raises what `dial` does."""
        told = self._told().get("caller")
        match told:
            case {"home": str(home), **rest}:
                config_home = rest.get("config_home")
                return Caller(home, config_home if isinstance(config_home, str) else None)
        raise BadAnswer(f"The cueloop on {self._url.machine} does not say whose configuration counts there.")

    def environ(self) -> Mapping[str, str]:
        """The environment of a command there. Raises what `dial` does."""
        told = self._told().get("env")
        return {k: v for k, v in told.items() if isinstance(v, str)} if isinstance(told, dict) else {}

    def _told(self) -> Mapping[str, Any]:
        if self._greeting is None:
            sock = self._dial(self._world.deadline(ssh.LOGIN_SECONDS), start=True)
            with self._lock:
                self._kept = sock
        return self._greeting or {}

    def _dial(self, deadline: Deadline, *, start: bool) -> socket.socket | None:
        may_ask, self._asked = not self._asked, True
        nonce = self._world.key()
        word = to_word({"nonce": nonce, "repo": self._url.path, "start": start})
        line = ssh.start(
            ssh.command_line(self._url, self._world.environ, "dial-stdio", word, may_ask=may_ask), self._world.environ
        )
        _running.add(line.process)
        try:
            # While a person may be asked for a password or a host key, no clock of ours runs.
            greeting = self._greeting_of(line, nonce, None if may_ask else deadline)
            return self._understood(line, greeting)
        except BaseException:
            ssh.end(line)
            _running.discard(line.process)
            raise

    def _understood(self, line: ssh.Line, greeting: Mapping[str, Any]) -> socket.socket | None:
        state = greeting.get("state")
        if state == "connected":
            self._check_version(greeting)
            self._greeting = greeting
            threading.Thread(target=_reap, args=(line,), daemon=True).start()
            return line.sock
        ssh.end(line)
        _running.discard(line.process)
        if state == "not_running":
            return None
        document = greeting.get("error")
        raise self._failure(document if isinstance(document, dict) else {}, str(greeting.get("kind")))

    def _failure(self, document: Mapping[str, Any], kind: str) -> Failure:
        message, detail, word = (document.get(key) for key in ("message", "detail", "code"))
        return KINDS.get(kind, Failure)(
            f"On {self._url.machine}: {message if isinstance(message, str) else 'it failed without a reason.'}",
            detail if isinstance(detail, str) else None,
            word=word if isinstance(word, str) else None,
        )

    def _check_version(self, greeting: Mapping[str, Any]) -> None:
        low, high = greeting.get("protocol_min"), greeting.get("protocol_max")
        if isinstance(low, int) and isinstance(high, int) and low <= PROTOCOL_VERSION and high >= OLDEST_PROTOCOL_VERSION:
            return
        raise Misfit(
            f"cueloop on {self._url.machine} (version {greeting.get('version')}) and this one ({__version__}) share no protocol.",
            "Update the older of the two.",
        )

    def _greeting_of(self, line: ssh.Line, nonce: str, deadline: Deadline | None) -> Mapping[str, Any]:
        """The greeting, taken from the socket to its last byte and no further. Raises SshFailed, Silent or BadAnswer."""
        sock, seen = line.sock, 0
        while True:
            left = None if deadline is None else deadline.left()
            if left is not None and left <= 0:
                raise Silent(
                    f"{self._url.machine} did not answer within {deadline.seconds if deadline else 0:g} s.",
                    line.words.last() or None,
                )
            sock.settimeout(left)
            try:
                data = sock.recv(NOISE_LIMIT + GREETING_LIMIT, socket.MSG_PEEK)
            except TimeoutError:
                continue
            except OSError:
                data = b""
            found = find_greeting(data, nonce)
            if found is not None:
                sock.recv(found[1], socket.MSG_WAITALL)
                return read_greeting(data[slice(*found)], nonce)
            if not data or (len(data) == seen and _is_over(line)):
                raise self._no_greeting(line, data)
            if len(data) > NOISE_LIMIT and b"\0" not in data:
                raise BadAnswer(f"The login on {self._url.machine} prints without an end where cueloop should answer.")
            if len(data) == seen:
                _wait_for_more(line, deadline)
            seen = len(data)

    def _no_greeting(self, line: ssh.Line, said: bytes) -> Failure:
        with suppress(Exception):
            line.process.wait(ssh.END_SECONDS)
        code, words = line.process.poll(), line.words.last()
        if code == ssh.NOT_FOUND:
            return ssh.not_found(self._url.machine, words)
        if code == ssh.SSH_FAILED:
            return ssh.SshFailed(f"No connection to {self._url.machine}: {words or 'ssh gave no reason'}.")
        hint = words or said.decode("utf-8", "replace").strip()[-200:]
        return ssh.SshFailed(f"cueloop on {self._url.machine} ended without a greeting (exit code {code}).", hint or None)


def _is_over(line: ssh.Line) -> bool:
    return line.process.poll() is not None


def _wait_for_more(line: ssh.Line, deadline: Deadline | None) -> None:
    """What was peeked at is not whole: more is a matter of moments, and a peek would return at once."""
    threading.Event().wait(0.01)


def _reap(line: ssh.Line) -> None:
    line.process.wait()
    _running.discard(line.process)


@atexit.register
def _end_all() -> None:
    """Whatever line is still open ends with us."""
    for process in list(_running):
        with suppress(OSError):
            os.kill(process.pid, signal.SIGTERM)

"""Connections to the daemon on another machine. Standard library only."""

from __future__ import annotations

import threading

from cueloop_client import failures
from cueloop_client.failures import BadAnswer, Failure, Misfit, Usage
from cueloop_client.remote import pump, ssh
from cueloop_client.remote.bridge import Beats
from cueloop_client.remote.greet import LOGIN_SECONDS, greeting_of
from cueloop_client.remote.word import to_word
from cueloop_protocol.roots import Caller
from cueloop_protocol.version import OLDEST_PROTOCOL_VERSION, PROTOCOL_VERSION, __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping
    from typing import Any

    from cueloop_client.remote.url import HostUrl
    from cueloop_client.world import Deadline, World

BEATS = Beats(every=15.0, idle=50.0)
"""Signs of life on a line that is silent; both sides keep to it."""
KINDS: Mapping[str, type[Failure]] = {
    "Barred": failures.Barred,
    "BadAnswer": failures.BadAnswer,
    "Lost": failures.Lost,
    "Misfit": failures.Misfit,
    "Older": failures.Misfit,
    "Silent": failures.Silent,
    "StartFailed": failures.StartFailed,
    "Stranger": failures.Stranger,
    "Unsent": failures.Lost,
}
"""What the other side says went wrong there, by its name; what is not here is a plain Failure."""
WRONG_ROOT = "RootError"


class SshDistance:
    """The way over ssh. The first connection may ask a person at the terminal, those after it ask nobody."""

    def __init__(self, url: HostUrl, world: World, *, machine: bool, seconds: float | None) -> None:
        """`machine`: the command is one for programs, to which a wrong path is no wrong usage. `seconds`: for a login, if so said."""
        self._url = url
        self._world = world
        self._machine = machine
        self._seconds = LOGIN_SECONDS if seconds is None else seconds
        self._lock = threading.Lock()
        self._may_ask = world.is_terminal(0) and world.is_terminal(2)
        self._kept: list[socket.socket] = []
        self._greeting: Mapping[str, Any] | None = None

    def dial(self, deadline: Deadline, *, start: bool) -> socket.socket | None:
        """A connection to the daemon there; None if none runs and none was to be started.

        Raises Unreachable, Silent, Misfit, BadAnswer, and what the other side says went wrong there.
        """
        with self._lock:
            if self._kept:
                return self._kept.pop(0)
        return self._dial(deadline, start=start)

    def caller(self) -> Caller:
        """Whose configuration counts there. Raises what `dial` does."""
        match self._told().get("caller"):
            case {"home": str(home), **rest}:
                config_home = rest.get("config_home")
                return Caller(home, config_home if isinstance(config_home, str) else None)
        raise BadAnswer(f"The cueloop on {self._url.machine} does not say whose configuration counts there.")

    def environ(self) -> Mapping[str, str]:
        """The environment of a command there, for a run that is about to start. Raises what `dial` does.

        Who was asked for a password would not be asked again: a run that could be started, but not followed or stopped, is not
        started. So where somebody may have been asked, the next connection is made now.
        """
        with self._lock:
            asked = self._may_ask
        told = self._told()
        if asked:
            sock = self._dial(self._world.deadline(self._seconds), start=True)
            with self._lock:
                self._kept += [sock] if sock is not None else []
        env = told.get("env")
        return {name: value for name, value in env.items() if isinstance(value, str)} if isinstance(env, dict) else {}

    def _told(self) -> Mapping[str, Any]:
        if self._greeting is None:
            sock = self._dial(self._world.deadline(self._seconds), start=True)
            with self._lock:
                self._kept += [sock] if sock is not None else []
        return self._greeting or {}

    def _dial(self, deadline: Deadline, *, start: bool) -> socket.socket | None:
        with self._lock:
            may_ask, self._may_ask = self._may_ask, False
        world, nonce = self._world, self._world.key()
        asked = {"nonce": nonce, "repo": self._url.path, "start": start, "beat": BEATS.every, "idle": BEATS.idle}
        argv = ssh.command_line(self._url, world.environ, "dial-stdio", to_word(asked), may_ask=may_ask)
        line = ssh.start(argv, world.environ, (lambda data: world.write(2, data)) if may_ask else None)
        try:
            # While a person may be asked for a password or a host key, no clock of ours runs.
            greeting, early = greeting_of(line, nonce, self._url.machine, None if may_ask else deadline)
            line.words.hide()
            if not self._is_connected(greeting):
                ssh.end(line)
                return None
        except BaseException:
            ssh.end(line)
            raise
        self._greeting = greeting
        return pump.begin(line, early, world.monotonic, BEATS if greeting.get("beats") is True else None)

    def _is_connected(self, greeting: Mapping[str, Any]) -> bool:
        self._check_version(greeting)
        state, error = greeting.get("state"), greeting.get("error")
        if state == "failed":
            raise self._failure(error if isinstance(error, dict) else {}, str(greeting.get("kind")))
        return state == "connected"

    def _failure(self, document: Mapping[str, Any], kind: str) -> Failure:
        message, detail, word = (document.get(key) for key in ("message", "detail", "code"))
        as_usage = kind == WRONG_ROOT and not self._machine
        return (Usage if as_usage else KINDS.get(kind, Failure))(
            f"On {self._url.machine}: {message if isinstance(message, str) else 'it failed without a reason.'}",
            detail if isinstance(detail, str) else None,
            word=word if isinstance(word, str) else None,
        )

    def _check_version(self, greeting: Mapping[str, Any]) -> None:
        low, high, version = (greeting.get(name) for name in ("protocol_min", "protocol_max", "version"))
        if not isinstance(low, int) or not isinstance(high, int):
            raise BadAnswer(f"The cueloop on {self._url.machine} does not say which protocol it speaks.")
        if low <= PROTOCOL_VERSION and high >= OLDEST_PROTOCOL_VERSION:
            return
        told = f"cueloop on {self._url.machine} (version {version}) and this one ({__version__}) share no protocol."
        if high < OLDEST_PROTOCOL_VERSION:
            raise Misfit(told, f"The one there is the older one: update cueloop on {self._url.machine} to {__version__}.")
        raise Misfit(told, f"This one is the older one: update cueloop here to {version}.")

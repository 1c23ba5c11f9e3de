"""The system's ssh, started so that its input and output are one socket of ours. Standard library only."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import threading

from cueloop_client.failures import Failure
from cueloop_client.remote.url import HostUrl
from cueloop_protocol.frozen import Frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

PROGRAM = "CUELOOP_SSH"
"""The environment's variable for the ssh program, with arguments if need be: words as in a POSIX shell."""
REMOTE = "CUELOOP_REMOTE_COMMAND"
"""The same for how cueloop is called on the other machine."""
FIXED = (
    *("-o", "ControlMaster=no"),  # one that is there is used; we are nobody's master
    *("-o", "ClearAllForwardings=yes"),
    *("-o", "ForwardAgent=no"),
    *("-o", "ForwardX11=no"),
    *("-o", "PermitLocalCommand=no"),
    *("-o", "RemoteCommand=none"),
    *("-o", "EscapeChar=none"),
    *("-o", "ServerAliveInterval=15"),
    *("-o", "ServerAliveCountMax=3"),
)
"""What the user's configuration may not set against us (ssh_config(5)): the connection carries our bytes and nothing else."""
PATHS = 'PATH="$PATH:$HOME/.local/bin:/usr/local/bin" exec cueloop "$@"'
WORDS_KEPT = 4096
"""Bytes of ssh's standard error that are kept for its last sentence."""
END_SECONDS = 1.0
"""What a closed ssh is given to leave, and again after a TERM."""


class SshFailed(Failure):
    """ssh could not make the connection, and said so: trying again at once helps nobody."""

    word = "network_error"


class Line(Frozen):
    """A started ssh: `sock` is its standard input and output, `words` gives the end of what it said on standard error."""

    sock: socket.socket
    process: subprocess.Popen[bytes]
    words: Words


class Words:
    """The end of a standard error, read as it comes by a thread that nobody waits for: others may hold it open."""

    def __init__(self, fd: int) -> None:
        self._kept = bytearray()
        threading.Thread(target=self._read, args=(fd,), daemon=True).start()

    def _read(self, fd: int) -> None:
        with os.fdopen(fd, "rb", buffering=0) as file:
            while data := file.read(WORDS_KEPT):
                self._kept += data
                del self._kept[:-WORDS_KEPT]

    def last(self) -> str:
        """The last line that is not empty; empty if there is none."""
        lines = [line.strip() for line in self._kept.decode("utf-8", "replace").splitlines() if line.strip()]
        return lines[-1] if lines else ""


NOT_FOUND = 127
"""A shell's exit code for a program that it has not found."""
SSH_FAILED = 255
"""ssh's own exit code (ssh(1))."""
LOGIN_SECONDS = 30.0
"""How long a login may take where nobody is asked."""


def not_started(program: str, exc: OSError) -> SshFailed:
    """ssh itself cannot be started."""
    return SshFailed(f"{program} cannot be started: {exc.strerror}.", f"Install OpenSSH's client, or name it in {PROGRAM}.")


def not_found(machine: str, words: str) -> SshFailed:
    """There is no cueloop on the machine; `words`: what the shell there said."""
    said = f" ({words})" if words else ""
    remedy = f"Install it there, or say how it is called: {REMOTE}=/path/to/cueloop{said}"
    return SshFailed(f"cueloop was not found on {machine}.", remedy, word="cli_unavailable")


def command_line(
    url: HostUrl, environ: Mapping[str, str], name: str, word: str, *, may_ask: bool, terminal: bool = False
) -> list[str]:
    """ssh's arguments for `cueloop NAME WORD` on the machine. The word and the name are plain; the rest is one constant text.

    Raises Failure for a variable that is no shell text.
    """
    program = _words(environ, PROGRAM) or ["ssh"]
    asking = () if may_ask else ("-o", "BatchMode=yes")
    user = () if url.user is None else ("-l", url.user)
    port = () if url.port is None else ("-p", str(url.port))
    given = environ.get(REMOTE, "").strip()
    called = f"{given} {name} {word}" if given else f"exec /bin/sh -c '{PATHS}' sh {name} {word}"
    return [*program, "-tt" if terminal else "-T", *FIXED, *asking, *user, *port, "--", url.host, called]


def start(argv: list[str], environ: Mapping[str, str]) -> Line:
    """Start ssh. Raises SshFailed if it cannot be started."""
    ours, its = socket.socketpair()
    reading, writing = os.pipe()
    try:
        process = subprocess.Popen(
            argv,
            stdin=its.fileno(),
            stdout=its.fileno(),
            stderr=writing,
            env=dict(environ),
            preexec_fn=_leave_interrupts_to_us,
        )
    except OSError as exc:
        ours.close()
        os.close(reading)
        raise not_started(argv[0], exc) from exc
    finally:
        its.close()
        os.close(writing)
    return Line(ours, process, Words(reading))


def end(line: Line) -> None:
    """Close the connection and see that ssh goes."""
    line.sock.close()
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            line.process.send_signal(number)
        try:
            line.process.wait(END_SECONDS)
            return
        except subprocess.TimeoutExpired:
            continue


def _leave_interrupts_to_us() -> None:
    """A Ctrl-C at the terminal is for the command, which then has something to say over this very line."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGQUIT, signal.SIG_IGN)


def _words(environ: Mapping[str, str], name: str) -> list[str]:
    try:
        return shlex.split(environ.get(name, ""))
    except ValueError as exc:
        raise Failure(f"{name} is no text that a shell would take: {exc}.") from exc

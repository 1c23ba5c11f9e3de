"""The system's ssh: its command line, its start and its end, and what its failures mean. Standard library only."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
from contextlib import contextmanager

from cueloop_client.failures import Failure, Unreachable, Unreached
from cueloop_client.remote.url import HostUrl
from cueloop_protocol.frozen import Frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

PROGRAM = "CUELOOP_SSH"
"""The environment's variable for the ssh program, with arguments if need be: words as in a POSIX shell."""
REMOTE = "CUELOOP_REMOTE_COMMAND"
"""How cueloop is called on the other machine: a text for the shell there."""
FIXED = (
    *("-o", "ControlMaster=no"),  # one that is there is used; we are nobody's master
    *("-o", "ClearAllForwardings=yes"),
    *("-o", "ForwardAgent=no"),
    *("-o", "ForwardX11=no"),
    *("-o", "PermitLocalCommand=no"),
    *("-o", "RemoteCommand=none"),
    *("-o", "EscapeChar=none"),
    *("-o", "ConnectTimeout=20"),
    *("-o", "ServerAliveInterval=15"),
    *("-o", "ServerAliveCountMax=3"),
)
"""What the user's configuration may not set against us (ssh_config(5)): the connection carries our bytes and nothing else."""
SINCE_8_7 = ("-o", "SessionType=default", "-o", "ForkAfterAuthentication=no", "-o", "StdinNull=no")
"""The same for what OpenSSH knows since 8.7. An older one takes an unknown option for a mistake; `IgnoreUnknown`, which would help,
would also replace the user's own."""
PATHS = 'PATH="$PATH:$HOME/.local/bin:/usr/local/bin" exec cueloop "$@"'
IGNORING = 'trap "" INT QUIT; exec "$@"'
"""Ctrl-C at the terminal is for the command, which then has something to say over this very line; ssh leaves what is ignored so."""
WORDS_KEPT = 4096
"""Bytes of ssh's standard error that are kept for its last sentence."""
WORDS_SECONDS = 0.3
"""How long the last words of an ssh that has ended are waited for; a control master may hold its standard error for ever."""
END_SECONDS = 2.0
"""What an ssh whose line is closed is given to leave, and again after a TERM."""
NOT_FOUND = 127
"""A shell's exit code for a program that it has not found."""
SSH_FAILED = 255
"""ssh's own exit code (ssh(1))."""
FINAL = re.compile(
    r"permission denied|authentication fail|verification failed|bad (configuration|owner)|no matching|unknown option", re.I
)
"""What ssh says where a second attempt would only end in the same way, or make a server lock us out."""


ONE_ASKS = "Only the first connection of a command asks for anything: use a key with an agent, or a control master."


class Line(Frozen):
    """A started ssh: the pipes to its standard input and from its standard output, which never block, and what it says."""

    process: subprocess.Popen[bytes]
    reading: int
    writing: int
    words: Words


class Words:
    """The end of a standard error, read as it comes by a thread that nobody waits for long: others may hold it open."""

    def __init__(self, fd: int, show: Callable[[bytes], None] | None, keep: int = WORDS_KEPT) -> None:
        """`show`: who is shown everything at once, until `hide`: a person who is asked something must read what. `keep`: bytes."""
        self._kept = bytearray()
        self._keep = keep
        self._show = show
        self._thread = threading.Thread(target=self._read, args=(fd,), daemon=True)
        self._thread.start()

    def hide(self) -> None:
        """From now on it is only kept."""
        self._show = None

    def last(self) -> str:
        """The last line that is not empty; empty if there is none. After the end of ssh, it is waited for a little."""
        lines = [line.strip() for line in self.all().decode("utf-8", "replace").splitlines() if line.strip()]
        return lines[-1] if lines else ""

    def all(self) -> bytes:
        """What is kept, waited for in the same way."""
        self._thread.join(WORDS_SECONDS)
        return bytes(self._kept)

    def _read(self, fd: int) -> None:
        with os.fdopen(fd, "rb", buffering=0) as file:
            while data := file.read(WORDS_KEPT):
                self._kept += data
                del self._kept[: -self._keep]
                if (show := self._show) is not None:
                    show(data)


def command_line(
    url: HostUrl, environ: Mapping[str, str], name: str, word: str, *, may_ask: bool, terminal: bool = False
) -> list[str]:
    """ssh's arguments for `cueloop NAME WORD` on the machine. The word and the name are plain; the rest is one constant text.

    Raises Failure for a program that is not there, or a variable that is no shell text.
    """
    program = _program(environ)
    options = FIXED + (SINCE_8_7 if os.path.basename(program[0]) == "ssh" and _version(program[0]) >= (8, 7) else ())
    asking = () if may_ask else ("-o", "BatchMode=yes")
    user = () if url.user is None else ("-l", url.user)
    port = () if url.port is None else ("-p", str(url.port))
    given = environ.get(REMOTE, "").strip()
    called = f"{given} {name} {word}" if given else f"exec /bin/sh -c '{PATHS}' sh {name} {word}"
    return [*program, "-tt" if terminal else "-T", *options, *asking, *user, *port, "--", url.host, called]


def environment(environ: Mapping[str, str], *, may_ask: bool) -> dict[str, str]:
    """ssh's environment: no window opens for a question that nobody may be asked."""
    return dict(environ) if may_ask else {**environ, "SSH_ASKPASS_REQUIRE": "never"}


def start(argv: list[str], environ: Mapping[str, str], show: Callable[[bytes], None] | None, keep: int = WORDS_KEPT) -> Line:
    """Start ssh; with `show`, a person may be asked, and is shown what it says. `keep`: see Words. Raises Unreachable."""
    its_input, writing = os.pipe()
    reading, its_output = os.pipe()
    errors, its_errors = os.pipe()
    try:
        with _interrupts_kept() as kept:
            process = subprocess.Popen(
                ["/bin/sh", "-c", IGNORING, "ssh", *argv],
                stdin=its_input,
                stdout=its_output,
                stderr=its_errors,
                env=environment(environ, may_ask=show is not None),
            )
    except OSError as exc:
        for fd in (reading, writing, errors):
            os.close(fd)
        raise not_started(argv[0], exc.strerror or str(exc)) from exc
    finally:
        for fd in (its_input, its_output, its_errors):
            os.close(fd)
    for fd in (reading, writing):
        os.set_blocking(fd, False)
    line = Line(process, reading, writing, Words(errors, show, keep))
    try:
        for number in kept:
            signal.raise_signal(number)
    except BaseException:
        end(line)
        raise
    return line


@contextmanager
def _interrupts_kept() -> Iterator[list[int]]:
    """Inside, Ctrl-C is only written down: an ssh of which nobody has heard yet would stay at the terminal, as it minds none."""
    kept: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield kept  # others are never interrupted
        return
    before = signal.signal(signal.SIGINT, lambda number, _: kept.append(number))
    try:
        yield kept
    finally:
        signal.signal(signal.SIGINT, before)


def end(line: Line) -> None:
    """Close the line and see that ssh goes: by itself, else by TERM, else by KILL."""
    os.close(line.writing)
    os.close(line.reading)
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            line.process.send_signal(number)
        try:
            line.process.wait(END_SECONDS)
            return
        except subprocess.TimeoutExpired:
            continue


def not_started(program: str, why: str) -> Unreachable:
    """ssh itself cannot be started."""
    return Unreachable(f"{program} cannot be started: {why}.", f"Install OpenSSH's client, or name it in {PROGRAM}.")


def not_found(machine: str, words: str) -> Unreachable:
    """There is no cueloop on the machine; `words`: what the shell there said."""
    said = f" It said: {words}" if words else ""
    remedy = f"Install it there, or say how it is called there: {REMOTE}=/path/to/cueloop{said}"
    return Unreachable(f"cueloop was not found on {machine}.", remedy, word="cli_unavailable")


def no_connection(machine: str, words: str) -> Unreachable:
    """ssh ended before anybody answered; `words`: its last ones."""
    message = f"No connection to {machine}: {words.rstrip('.') or 'ssh gave no reason'}."
    if FINAL.search(words):
        return Unreachable(message, f"Try it by hand: ssh {machine}. {ONE_ASKS}")
    return Unreached(message)


def _program(environ: Mapping[str, str]) -> list[str]:
    try:
        words = shlex.split(environ.get(PROGRAM, "")) or ["ssh"]
    except ValueError as exc:
        raise Failure(f"{PROGRAM} is no text that a shell would take: {exc}.") from exc
    found = shutil.which(words[0], path=environ.get("PATH", os.defpath))
    if found is None:
        raise not_started(words[0], "it is not there")
    return [found, *words[1:]]


_versions: dict[str, tuple[int, int]] = {}


def _version(program: str) -> tuple[int, int]:
    """The version of an OpenSSH; of everything else, and of one that does not say so at once, 0.0."""
    if program not in _versions:
        try:
            done = subprocess.run([program, "-V"], stdin=subprocess.DEVNULL, capture_output=True, timeout=2.0)
        except (OSError, subprocess.TimeoutExpired):
            return 0, 0
        told = re.match(rb"OpenSSH_(\d+)\.(\d+)", done.stderr)
        _versions[program] = (int(told[1]), int(told[2])) if told else (0, 0)
    return _versions[program]

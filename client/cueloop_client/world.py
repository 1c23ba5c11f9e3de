"""What a command gets from outside: environment, user, clocks, output. Made once in `main`. Standard library only."""

from __future__ import annotations

import os
import time

from cueloop_protocol.frozen import Frozen
from cueloop_protocol.roots import Caller, caller_from_environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cueloop_client.far import Distance


def random_key() -> str:
    """32 random hexadecimal digits."""
    return os.urandom(16).hex()


class World(Frozen):
    """Everything that is not an argument of the command line. `monotonic` and `wall` give seconds; `write` takes whole texts."""

    environ: Mapping[str, str]
    uid: int
    monotonic: Callable[[], float]
    wall: Callable[[], float]
    write: Callable[[int, bytes], None]
    """Writes all of the bytes to descriptor 1 or 2. Raises OSError; BrokenPipeError also where the descriptor is closed."""
    read_line: Callable[[], str]
    """One line of standard input; empty at its end."""
    is_terminal: Callable[[int], bool]
    program: str
    """The path by which this program was started, as far as known: what may not be passed on to."""
    key: Callable[[], str] = random_key
    """A random word that nobody else has, for requests that may not be carried out twice."""
    distance: Distance | None = None
    """The way to the machine of the repository, if that is another one."""

    def passwd_home(self) -> str:
        """The home folder of the user's passwd entry; `/` where there is none."""
        import pwd

        try:
            return pwd.getpwuid(self.uid).pw_dir
        except KeyError:
            return "/"

    def passwd_name(self) -> str | None:
        """The user's name; None where there is no passwd entry."""
        import pwd

        try:
            return pwd.getpwuid(self.uid).pw_name
        except KeyError:
            return None

    def caller(self) -> Caller:
        """Whose configuration the daemon shall use for this command. Of another machine: raises what `Distance` does."""
        if self.distance is not None:
            return self.distance.caller()
        home = self.environ.get("HOME", "")
        return caller_from_environment(self.environ, home if os.path.isabs(home) else self.passwd_home())

    def agents_environ(self) -> Mapping[str, str]:
        """The environment that agents shall get. Of another machine: raises what `Distance` does.

        What they call shall work where they work, whatever machine their caller otherwise means.
        """
        if self.distance is not None:
            return self.distance.environ()
        return {name: value for name, value in self.environ.items() if name != "CUELOOP_HOST"}

    def deadline(self, seconds: float) -> Deadline:
        """A moment that many seconds from now."""
        return Deadline(self.monotonic, self.monotonic() + seconds, seconds)


class Deadline(Frozen):
    """A moment on the monotonic clock at which waiting ends; `seconds` is how long it was given."""

    monotonic: Callable[[], float]
    at: float
    seconds: float

    def left(self) -> float:
        """Seconds until then, never negative."""
        return max(0.0, self.at - self.monotonic())

    def is_over(self) -> bool:
        """Whether the moment has come."""
        return self.monotonic() >= self.at


def write_all(fd: int, data: bytes) -> None:
    """Write everything, however little the descriptor takes at a time. Raises OSError as `World.write` says."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError as exc:
        import errno

        if exc.errno == errno.EBADF:
            raise BrokenPipeError(exc.errno, "this output is closed") from exc
        raise


def is_terminal(fd: int) -> bool:
    """Whether the descriptor is a terminal; a closed one is none."""
    try:
        return os.isatty(fd)
    except OSError:
        return False


def read_line() -> str:
    """One line of standard input, bytes that are no UTF-8 replaced; empty at its end or where it is closed."""
    line = bytearray()
    try:
        while not line.endswith(b"\n") and len(line) < 4096:
            byte = os.read(0, 1)  # one at a time, so that nothing behind the line is taken from whoever reads next
            if not byte:
                break
            line += byte
    except OSError:
        return ""
    return line.decode("utf-8", "replace")


def real_world(program: str) -> World:
    """The process's own environment, user, clocks and descriptors."""
    return World(
        environ=os.environ,
        uid=os.getuid(),
        monotonic=time.monotonic,
        wall=time.time,
        write=write_all,
        read_line=read_line,
        is_terminal=is_terminal,
        program=program,
    )

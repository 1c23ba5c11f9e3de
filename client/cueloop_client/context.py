"""What a command works with: its options, the repository, the way to answers, and its two outputs. Standard library only."""

from __future__ import annotations

from cueloop_client.failures import Usage
from cueloop_protocol.frozen import Frozen
from cueloop_protocol.roots import RootError, find_root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from cueloop_client.far import FarRoot
    from cueloop_client.flags import Values
    from cueloop_client.table import Command
    from cueloop_client.world import World
    from cueloop_protocol.roots import Root

ANSWER_SECONDS = 10.0
"""How long a command waits for an answer; the slowest honest one, a queue of 12 MB read anew, takes well under one."""


class Context(Frozen):
    """One call of one command."""

    world: World
    command: Command
    values: Values
    seconds: float
    argv: tuple[str, ...] = ()
    """The arguments as they came, for a command that may be passed on."""
    far: FarRoot | None = None
    """The repository, if it is on another machine."""

    @property
    def json(self) -> bool:
        """Whether JSON is to be printed for people's commands, too."""
        return self.values.has("json")

    @property
    def without_daemon(self) -> bool:
        """Whether the answer is to come from this process."""
        return self.values.has("no-daemon")

    @property
    def start_seconds(self) -> float:
        """How long a start of the daemon may take: what was asked for by --timeout, else enough for a busy machine."""
        from cueloop_client.launch import START_SECONDS

        return self.seconds if self.values.has("timeout") else max(START_SECONDS, self.seconds)

    def root(self) -> Root:
        """The repository that is meant. Raises Usage for a folder named by --repo (of a `machine` command: RootError), else RootError.

        A program that named a folder gets its error document, whatever became of the folder; an empty name is wrong usage for all.
        """
        if self.far is not None:
            return self.far
        named = self.values.text("repo")
        if named == "":
            raise Usage("--repo needs a folder, and got an empty text.")
        try:
            return find_root(named)
        except RootError as exc:
            if named is not None and not self.command.machine:
                raise Usage(f"{exc}.") from exc
            raise

    def print(self, text: str) -> None:
        """Write text and a line end to standard output; nothing for an empty text."""
        if text:
            self.world.write(1, encoded(text + "\n"))

    def print_title(self, line: str) -> None:
        """The same, in bold where standard output takes colours."""
        data = encoded(line)
        self.world.write(1, b"\x1b[1m%b\x1b[0m\n" % data if self.is_colored() else data + b"\n")

    def print_json(self, value: Any, *, indent: int | None = 2) -> None:
        """Write a JSON document and a line end to standard output: UTF-8, keys in their order."""
        import json

        separators = (",", ":") if indent is None else None
        try:
            data = json.dumps(value, indent=indent, separators=separators, ensure_ascii=False).encode()
        except UnicodeEncodeError:  # a lone surrogate, which UTF-8 has no bytes for
            data = json.dumps(value, indent=indent, separators=separators).encode()
        self.world.write(1, data + b"\n")

    def say(self, text: str) -> None:
        """Write text for people to standard error."""
        self.world.write(2, encoded(text + "\n"))

    def is_colored(self) -> bool:
        """Whether standard output takes colours: `--color`, else a terminal without NO_COLOR and with a TERM that is not dumb."""
        environ = self.world.environ
        wanted = self.values.text("color") or "auto"
        if self.values.has("no-color") or wanted == "never":
            return False
        if wanted == "always":
            return True
        return not environ.get("NO_COLOR") and environ.get("TERM", "dumb") != "dumb" and self.world.is_terminal(1)


def make_context(world: World, command: Command, values: Values, argv: Sequence[str] = ()) -> Context:
    """Check what is common to all commands. Raises Usage."""
    if len(values.words) > command.words:
        raise Usage(f"{values.words[command.words]!r} is too much: {command.usage}")
    if values.has("no-daemon") and not command.without_daemon:
        raise Usage("This command needs the daemon: --no-daemon is for commands that only read.")
    if values.text("color") not in (None, "auto", "always", "never"):
        raise Usage("--color takes auto, always or never.")
    seconds = _seconds(values.text("timeout"))
    far: FarRoot | None = None
    host = values.text("host")
    if host is not None and values.has("repo"):
        raise Usage("--repo and --host contradict each other: the path is part of --host.")
    if host is not None and command.here:
        raise Usage("--host is not for this command: it is what --host calls on the other machine.")
    if host is None and not command.here and not values.has("repo"):
        host = world.environ.get("CUELOOP_HOST") or None
    if host is not None:
        from cueloop_client.remote.place import far_place

        far, world = far_place(host, world, machine=command.machine, seconds=seconds if values.has("timeout") else None)
    return Context(world, command, values, seconds, tuple(argv), far)


def encoded(text: str) -> bytes:
    """UTF-8; paths get back the bytes they came with, and what may not reach a terminal as such is replaced.

    Texts come from files that others wrote: an escape sequence in a task's title must not move anybody's cursor.
    """
    if not text.isascii() or not text.replace("\n", "").isprintable():
        text = "".join(c if c in "\n\t" or c.isprintable() or "\udc80" <= c <= "\udcff" else "\ufffd" for c in text)
    return text.encode("utf-8", "surrogateescape")


def _seconds(text: str | None) -> float:
    if text is None:
        return ANSWER_SECONDS
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds <= 86_400.0:
        raise Usage(f"--timeout takes seconds, more than 0 and at most 86400, not {text!r}.")
    return seconds

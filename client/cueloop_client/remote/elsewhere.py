"""Commands for a repository on another machine. Those that work on its files and processes are run there. Standard library only."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading

from cueloop_client.failures import Barred
from cueloop_client.remote import ssh
from cueloop_client.remote.url import parse_host
from cueloop_client.remote.word import from_word, to_word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cueloop_client.context import Context
    from cueloop_client.world import World

HOST = "--host"
WITHOUT = "--no-daemon"
KEPT = 1024 * 1024
"""Bytes of a command's standard error: for programs it is told when it is known not to be ssh's own."""


def call(context: Context, words: Sequence[str], argv: Sequence[str]) -> int:
    """Do the command `words` with the options `argv`: here over a connection to the daemon there, or there. Gives the exit code.

    What reads is answered there without a daemon where none may own the repository, as it would be here. Raises what commands do.
    """
    from importlib import import_module

    command = context.command
    if command.there or context.without_daemon:
        return run_there(context, words, argv)
    try:
        code: int = import_module(f"cueloop_client.commands.{command.module}").run(context)
    except Barred:
        if not command.without_daemon:
            raise
        return run_there(context, words, [WITHOUT, *argv])
    return code


def run_there(context: Context, words: Sequence[str], argv: Sequence[str]) -> int:
    """Run the command on the machine of its repository: its output and its exit code are this one's.

    On a terminal, Ctrl-C is for the command there. Raises Unreachable where there is no connection or no cueloop.
    """
    world = context.world
    url = parse_host(context.values.text("host") or world.environ["CUELOOP_HOST"])
    plain = ["--no-color"] if world.environ.get("NO_COLOR") else []
    word = to_word({"command": [*words], "argv": [*plain, *_without_host(argv)], "repo": url.path})
    for_program = context.command.machine or context.json
    terminal = not for_program and all(map(world.is_terminal, (0, 1, 2)))
    may_ask = world.is_terminal(0) and world.is_terminal(2)
    line = ssh.command_line(url, world.environ, "at-host", word, may_ask=may_ask, terminal=terminal)
    show = None if for_program else lambda data: world.write(2, data)
    code, heard = _called(line, ssh.environment(world.environ, may_ask=may_ask), show, terminal=terminal)
    if code == ssh.SSH_FAILED:
        raise ssh.no_connection(url.machine, heard.last())
    if code == ssh.NOT_FOUND:
        raise ssh.not_found(url.machine, heard.last())
    if for_program:
        world.write(2, heard.all())
    return code if code >= 0 else 128 - code


def _called(
    line: Sequence[str], environ: dict[str, str], show: Callable[[bytes], None] | None, *, terminal: bool
) -> tuple[int, ssh.Words]:
    """Exit code and standard error. What stands behind our own command in a script's input is not for ssh to read."""
    errors, its_errors = os.pipe()
    words = ssh.Words(errors, show, KEPT)
    try:
        process = subprocess.Popen(line, env=environ, stdin=None if terminal else subprocess.DEVNULL, stderr=its_errors)
    except OSError as exc:
        raise ssh.not_started(line[0], exc.strerror or str(exc)) from exc
    finally:
        os.close(its_errors)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return process.wait(), words
    finally:
        signal.signal(signal.SIGINT, before)


def run_here(word: str, world: World) -> int:
    """The other side of `run_there`. Raises Usage for a word that is none."""
    from cueloop_client.main import run
    from cueloop_client.remote.paths import expanded
    from cueloop_client.world import World

    asked = from_word(word)
    environ = {name: value for name, value in world.environ.items() if name != "CUELOOP_HOST"}
    here = World(**{**vars(world), "environ": environ})
    if not world.is_terminal(1):
        _leave_with_our_reader()
    return run([*_texts(asked.get("command")), f"--repo={expanded(asked.get('repo'), here)}", *_texts(asked.get("argv"))], here)


def _leave_with_our_reader() -> None:
    """Without a terminal nobody hangs up: a command that waits would never know that ssh is gone."""

    def watch() -> None:
        poll = select.poll()
        poll.register(1, 0)
        if any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll()):
            os.kill(os.getpid(), signal.SIGHUP)

    threading.Thread(target=watch, daemon=True).start()


def _texts(value: object) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _without_host(argv: Sequence[str]) -> list[str]:
    kept: list[str] = []
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*kept, word, *rest]
        if word == HOST:
            del rest[:1]
        elif not word.startswith(f"{HOST}="):
            kept.append(word)
    return kept

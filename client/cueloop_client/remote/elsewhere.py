"""Commands for a repository on another machine. Those that work on its files and processes are run there. Standard library only."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading

from cueloop_client.failures import Barred, Lost
from cueloop_client.remote import ssh
from cueloop_client.remote.greet import CHUNK, LOGIN_SECONDS, greeting_of
from cueloop_client.remote.url import parse_host
from cueloop_client.remote.word import from_word, greeting, to_word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from cueloop_client.context import Context
    from cueloop_client.world import Deadline, World

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

    On a terminal, Ctrl-C is for the command there. Raises Unreachable where there is no connection or no cueloop, and Lost.
    """
    world = context.world
    url = parse_host(context.values.text("host") or world.environ["CUELOOP_HOST"])
    for_program = context.command.machine or context.json
    terminal = not for_program and all(map(world.is_terminal, (0, 1, 2)))
    may_ask = world.is_terminal(0) and world.is_terminal(2)
    plain = ["--no-color"] if world.environ.get("NO_COLOR") else []
    asked = {"command": [*words], "argv": [*plain, *_without_host(argv)], "repo": url.path}
    if terminal:
        line = ssh.command_line(url, world.environ, "at-host", to_word(asked), may_ask=may_ask, terminal=True)
        return _on_terminal(world, url.machine, line)
    nonce = world.key()
    word = to_word({**asked, "nonce": nonce})
    line = ssh.command_line(url, world.environ, "at-host", word, may_ask=may_ask)
    deadline = None if may_ask else world.deadline(max(LOGIN_SECONDS, context.seconds))
    return _by_pipes(world, url.machine, line, nonce, deadline, for_program=for_program)


def _by_pipes(world: World, machine: str, argv: list[str], nonce: str, deadline: Deadline | None, *, for_program: bool) -> int:
    """What a login prints before the command is passed over. For programs, its standard error is told when it is whole."""
    line = ssh.start(argv, world.environ, None if for_program else lambda data: world.write(2, data), KEPT)
    try:
        _, data = greeting_of(line, nonce, machine, deadline)
        poll = select.poll()
        poll.register(line.reading, select.POLLIN)
        while True:
            if data:
                world.write(1, data)
            poll.poll()
            data = os.read(line.reading, CHUNK)
            if not data:
                break
        code, said = line.process.wait(), line.words.all()
    finally:
        ssh.end(line)
    if code == ssh.SSH_FAILED:
        raise Lost(f"The connection to {machine} was lost.", line.words.last() or None)
    if for_program:
        world.write(2, said)
    return code if code >= 0 else 128 - code


def _on_terminal(world: World, machine: str, argv: list[str]) -> int:
    """The command there has a terminal, too, which is this one; standard error is ssh's own then."""
    errors, its_errors = os.pipe()
    heard = ssh.Words(errors, lambda data: world.write(2, data))
    try:
        process = subprocess.Popen(argv, env=dict(world.environ), stderr=its_errors)
    except OSError as exc:
        raise ssh.not_started(argv[0], exc.strerror or str(exc)) from exc
    finally:
        os.close(its_errors)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        code = process.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    words = heard.last()
    if code == ssh.SSH_FAILED:
        raise ssh.no_connection(machine, words)
    if code == ssh.NOT_FOUND:
        raise ssh.not_found(machine, words)
    return code if code >= 0 else 128 - code


def run_here(word: str, world: World) -> int:
    """The other side of `run_there`. Raises Usage for a word that is none."""
    from cueloop_client.main import run
    from cueloop_client.remote.paths import expanded
    from cueloop_client.world import World

    asked = from_word(word)
    environ = {name: value for name, value in world.environ.items() if name != "CUELOOP_HOST"}
    here = World(**{**vars(world), "environ": environ})
    nonce = asked.get("nonce")
    if isinstance(nonce, str):
        world.write(1, greeting(nonce, {}))
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
